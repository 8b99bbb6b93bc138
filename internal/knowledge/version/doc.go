// Package version has what was built.
//
// In: what the build stamps with -ldflags -X, and what Go records of the build.
// Out: Info.
// Owns: nothing.
// Never: reads a file.
package version

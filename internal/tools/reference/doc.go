// Command reference writes the pages of docs/reference from the commands, the types of api/, and the constants of events and
// conditions, and the manual pages and the files for shell completion of a release.
//
//	reference pages DIR
//	reference manual DIR
//	reference completions DIR
package main

// Package preview has the commands that show what a change of the control plane would do: preview, which creates a Preview or computes it
// from an export, and test, which compares such answers with what is expected.
package preview

// Package history has the commands that show what templates were and bring it back. The control plane answers what was; what is brought
// back is written by ordinary requests, with the rights of the user.
package history

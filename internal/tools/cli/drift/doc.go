// Package drift has the command that shows what others changed in members, and what happens to it: it creates a DriftReport and prints
// the answer.
package drift

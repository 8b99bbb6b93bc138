// Package taken checks what a command read in a member before it writes it to the control plane. The owner of a member, and who has its API
// server, may answer with anything: another object than the one that was requested, one that gives rights on the control plane, or
// something else than a moment before.
package taken

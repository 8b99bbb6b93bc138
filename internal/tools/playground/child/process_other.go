//go:build !linux

package child

import "syscall"

// bindToParent does nothing where the kernel does not kill a process whose parent has ended: a member that is paused when its parent is killed
// then ends once it is resumed.
func bindToParent(*syscall.SysProcAttr) {}

// atRest cannot tell here and trusts that a signal sent is a signal delivered.
func atRest(int) bool { return true }

//go:build !linux

package fleettest

import "syscall"

// bindToParent does nothing where the kernel does not kill a process whose parent has ended.
func bindToParent(*syscall.SysProcAttr) {}

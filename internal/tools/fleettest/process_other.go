//go:build !linux

package fleettest

import "syscall"

// bindToParent does nothing where the kernel knows no such bond.
func bindToParent(*syscall.SysProcAttr) {}

package fleettest

import "syscall"

// bindToParent has the kernel kill the process when the thread that starts it ends.
func bindToParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

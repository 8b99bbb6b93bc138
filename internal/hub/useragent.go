package hub

import (
	"fmt"
	"runtime/debug"
)

// userAgent is what a member's API server logs of requests by the control plane with this id: which program it is, in which
// version, and which of several control planes.
func userAgent(id string) string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return fmt.Sprintf("flagship/%s (control-plane %s)", version, id)
}

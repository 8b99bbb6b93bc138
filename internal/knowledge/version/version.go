package version

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"k8s.io/component-base/version"
)

// release and commit are stamped by the build; see the Makefile. They are empty in what `go build` or `go test` makes.
var release, commit string

// Info is what was built.
type Info struct {
	// Version is that of Flagship: a tag, or a tag with the number of commits since and the commit. "unknown" if it was not
	// stamped.
	Version string `json:"version"`
	// Commit is the full hash of the commit; "unknown" if neither the build nor Go recorded it.
	Commit string `json:"commit"`
	// Kubernetes is the version of the API server inside, as its clients see it.
	Kubernetes string `json:"kubernetes"`
	// Go is the version of the compiler.
	Go string `json:"go"`
	// Platform is the operating system and the architecture, such as linux/amd64.
	Platform string `json:"platform"`
}

// Unknown is the version, or the commit, of a build that records none.
const Unknown = "unknown"

// Get returns what was built.
func Get() Info {
	return Info{
		Version: cmp.Or(release, Unknown), Commit: cmp.Or(commit, recordedCommit(), Unknown),
		Kubernetes: version.Get().GitVersion, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// recordedCommit is what Go records of a build in a checkout.
func recordedCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return ""
}

package playground

import (
	"fmt"
	"path/filepath"
)

// layout names the files of a data directory.
type layout string

func (l layout) spec() string    { return filepath.Join(string(l), "playground.json") }
func (l layout) logs() string    { return filepath.Join(string(l), "logs") }
func (l layout) hubData() string { return filepath.Join(string(l), "hub") }

func (l layout) memberData(name string) string { return filepath.Join(string(l), "members", name) }
func (l layout) agentData(name string) string  { return filepath.Join(string(l), "agents", name) }
func (l layout) log(name string) string        { return filepath.Join(l.logs(), name+".log") }

// HubKubeconfig is the file in a data directory with which clients reach the control plane.
func HubKubeconfig(dataDir string) string { return filepath.Join(dataDir, "hub.kubeconfig") }

// MemberKubeconfig is the file in a data directory with which clients reach a member directly.
func MemberKubeconfig(dataDir, member string) string {
	return filepath.Join(dataDir, member+".kubeconfig")
}

// LogFiles are the files in a data directory that a hub and its members log to, by name ("hub", "member1", …).
func LogFiles(dataDir string, members int) map[string]string {
	files := map[string]string{"hub": layout(dataDir).log("hub")}
	for i := range members {
		files[MemberName(i)] = layout(dataDir).log(MemberName(i))
	}
	return files
}

// MemberName is the name of the i-th member, counted from 0.
func MemberName(i int) string { return fmt.Sprintf("member%d", i+1) }

// AgentDir is the data directory of the agent of a member in Pull mode.
func AgentDir(dataDir, member string) string { return layout(dataDir).agentData(member) }

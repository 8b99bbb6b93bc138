package playground

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/flagship-k8s/flagship/internal/knowledge/atomicfile"
	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// fleetSpec is what playground.json keeps: everything chosen once that clients and clusters have come to rely on.
type fleetSpec struct {
	// HubPort is where the hub listens.
	HubPort int `json:"hubPort"`
	// Members in order of creation.
	Members []memberSpec `json:"members"`
}

// memberSpec describes one member.
type memberSpec struct {
	Name        string `json:"name"`
	Port        int    `json:"port"`
	PodCIDR     string `json:"podCIDR"`
	ServiceCIDR string `json:"serviceCIDR"`
	Nodes       int    `json:"nodes"`
	NodeCPU     string `json:"nodeCPU,omitempty"`
	NodeMemory  string `json:"nodeMemory,omitempty"`
	Devices     int    `json:"devices,omitempty"`
	Bare        bool   `json:"bare,omitempty"`
	// Pull members have an agent.
	Pull bool `json:"pull,omitempty"`
	// Joined is set once the member has been joined: if its Cluster is gone later, a user removed it.
	Joined bool `json:"joined,omitempty"`
}

// newMember gives the i-th member ranges of its own: the control plane adds endpoints of several members to one Service,
// so that equal pod addresses in two members would hide a mistake.
func newMember(i, port int, c Config) memberSpec {
	return memberSpec{
		Name:        MemberName(i),
		Port:        port,
		PodCIDR:     fmt.Sprintf("10.%d.0.0/16", 64+i),
		ServiceCIDR: fmt.Sprintf("10.%d.0.0/16,fd00:10:%d::/112", 128+i, 128+i),
		Nodes:       c.Nodes,
		NodeCPU:     c.NodeCPU,
		NodeMemory:  c.NodeMemory,
		Devices:     c.Devices,
		Bare:        c.Bare,
	}
}

// plan completes the spec of a data directory by the config.
func plan(r fleetSpec, c Config, ports *machine.PortChooser) (fleetSpec, error) {
	want := c.Members
	if want < 0 {
		if want = len(r.Members); r.HubPort == 0 {
			want = DefaultMembers
		}
	}
	if want < len(r.Members) {
		return r, fmt.Errorf("%s has %d members and cannot go on with %d: use another --data-dir, or take a member out with 'flagship unjoin'",
			c.DataDir, len(r.Members), want)
	}
	for _, m := range r.Members {
		ports.Take(m.Port)
	}
	ports.Take(c.Port)
	switch {
	case c.Port != 0:
		r.HubPort = c.Port
	case r.HubPort == 0:
		port, err := ports.Choose()
		if err != nil {
			return r, err
		}
		r.HubPort = port
	}
	ports.Take(r.HubPort)
	for i := len(r.Members); i < want; i++ {
		port, err := ports.Choose()
		if err != nil {
			return r, err
		}
		r.Members = append(r.Members, newMember(i, port, c))
	}
	return r, planAgents(r.Members, c.Pull)
}

// planAgents sets which members have an agent. How a member was joined stays.
func planAgents(members []memberSpec, pull []string) error {
	for _, name := range pull {
		i := slices.IndexFunc(members, func(m memberSpec) bool { return m.Name == name })
		switch {
		case i < 0:
			return fmt.Errorf("there is no member %q to run an agent for", name)
		case members[i].Joined && !members[i].Pull:
			return fmt.Errorf("%s was joined in Push mode before: use another --data-dir, or switch its mode as docs/agents.md describes", name)
		}
		members[i].Pull = true
	}
	return nil
}

// specFile keeps a spec on disk. Its methods may be called concurrently.
type specFile struct {
	path string
	mu   sync.Mutex
	data fleetSpec
}

func openSpec(path string) (*specFile, error) {
	f := &specFile{path: path}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return nil, fmt.Errorf("reading what runs here: %w", err)
	}
	if err := json.Unmarshal(text, &f.data); err != nil {
		return nil, fmt.Errorf("%s is damaged (%w): restore it or start with an empty --data-dir", path, err)
	}
	return f, nil
}

// change edits the spec and writes it, whole or not at all.
func (f *specFile) change(edit func(*fleetSpec)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit(&f.data)
	text, err := json.MarshalIndent(f.data, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the spec: %w", err)
	}
	return atomicfile.Write(f.path, append(text, '\n'), 0o600)
}

package fleettest

import (
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// Apart is a fleet whose members live on when the control plane is killed. To start it again costs one process, not one for each member.
type Apart struct {
	*Fleet
	// Server is the control plane, and Parts are the members by name.
	Server *Part
	Parts  map[string]*Part
}

// StartApart runs a control plane and members that run an API server only, each in a process of its own, until the test ends. Members are
// named as those of a Fleet.
func StartApart(t testing.TB, members int) *Apart {
	t.Helper()
	a := &Apart{Fleet: &Fleet{}, Server: StartHub(t), Parts: map[string]*Part{}}
	a.Hub, a.Dir = a.Server.Cluster, a.Server.Dir
	for i := range members {
		name := playground.MemberName(i)
		member := StartMember(t, name, "--bare")
		a.Server.Join(t, name, member.Kubeconfig)
		a.Members, a.Parts[name] = append(a.Members, member.Cluster), member
	}
	return a
}

// KillAndStart ends the control plane as kill -9 does, and starts it again with its state.
func (a *Apart) KillAndStart(t testing.TB) {
	t.Helper()
	a.Server.Kill()
	a.Server.Start(t)
}

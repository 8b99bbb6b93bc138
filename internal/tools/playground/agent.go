package playground

import (
	"fmt"
	"io"

	"github.com/flagship-k8s/flagship/internal/tools/playground/child"
)

// agentSuffix ends the name of the agent of a member, in logs and messages.
const agentSuffix = "-agent"

// agentOf is what the agent of a member is run with.
func (m *member) agentOf() Agent {
	name := m.spec.Name
	return Agent{Cluster: name, Kubeconfig: MemberKubeconfig(string(m.dir), name), Dir: m.dir.agentData(name)}
}

// joined starts the agent of a member that was registered a moment ago.
func (m *member) joined() error {
	m.op.Lock()
	defer m.op.Unlock()
	m.spec.Joined = true
	if !m.spec.Pull {
		return nil
	}
	return m.startAgent()
}

// startAgent runs the agent unless it runs already. The Cluster becomes ready when it works.
func (m *member) startAgent() error {
	if m.runningAgent() != nil {
		return nil
	}
	a, name := m.agentOf(), m.spec.Name+agentSuffix
	_, _ = io.WriteString(m.agentLog, startMark+name+"\n")
	p, err := child.Spawn(m.executable, []string{AgentCommand, a.Cluster, "--data-dir=" + a.Dir, "--cluster-kubeconfig=" + a.Kubeconfig}, m.agentLog)
	if err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agent = p
	m.reaping.Go(func() {
		<-p.Exited
		if !p.Asked.Load() {
			m.onEnd(name, child.Ending(p.Err))
		}
	})
	return nil
}

// runningAgent is nil if no agent runs.
func (m *member) runningAgent() *child.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agent == nil {
		return nil
	}
	select {
	case <-m.agent.Exited:
		return nil
	default:
		return m.agent
	}
}

package trial

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/flagship-k8s/flagship/internal/features/agents/credential"
	"github.com/flagship-k8s/flagship/internal/features/enroll/membership"
	"github.com/flagship-k8s/flagship/internal/host/controlplane"
	"github.com/flagship-k8s/flagship/internal/host/memory"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/agents"
	"github.com/flagship-k8s/flagship/internal/tools/cli/server"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// Commands run a control plane with members on this machine, to try it and to measure it.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newDemoCommand(s), newUpCommand(s), newMemberCommand(s), newMemberProcessCommand(), newAgentProcessCommand(s), newBenchCommand(s)}
}

// hub is a control plane in this process, whose memory is adapted while it runs.
type hub struct {
	*controlplane.Hub
	stopAdapting func()
}

// Wait implements playground.Hub.
func (h hub) Wait() error {
	defer h.stopAdapting()
	return h.Hub.Wait()
}

// hubOptions are those of the playground's control plane, with flags of the command server that are set.
func hubOptions(o playground.HubOptions, set []string) (controlplane.Options, error) {
	options, err := server.OptionsOf(set)
	if err != nil {
		return options, err
	}
	s := &options.Server
	s.Name, s.DataDir, s.Port, s.AllowLoopbackMembers = "hub", o.DataDir, o.Port, true
	s.Profiling = s.Profiling || o.Profiling
	s.Authentication.BootstrapTokens = s.Authentication.BootstrapTokens || o.BootstrapTokens
	if !slices.ContainsFunc(set, func(setting string) bool { return strings.HasPrefix(strings.TrimPrefix(setting, "--"), "brake-") }) {
		options.Tunable.Brake = brake.Config{Share: 1} // off: a playground and a bench remove everything they made, at once
	}
	return options, nil
}

// startHub runs the playground's control plane in this process.
func startHub(ctx context.Context, o playground.HubOptions, set []string) (playground.Hub, error) {
	options, err := hubOptions(o, set)
	if err != nil {
		return nil, err
	}
	cli.LogTo(o.Log)
	stop := memory.Adapt(ctx)
	h, err := controlplane.Start(ctx, options)
	if err != nil {
		stop()
		return nil, err
	}
	return hub{h, stop}, nil
}

// join makes the cluster of a kubeconfig file a member.
func join(ctx context.Context, hub *rest.Config, name, kubeconfig string) error {
	access, err := membership.LoadAccess(kubeconfig, "")
	if err != nil {
		return err
	}
	return membership.Join(ctx, hub, access.Config, membership.Options{Name: name})
}

// tokenLife bounds the registration of an agent, which takes seconds.
const tokenLife = 10 * time.Minute

// register makes the cluster of a kubeconfig file a member in Pull mode, with a token, as a person does.
func register(ctx context.Context, a playground.Agent, hubKubeconfig string) error {
	hub, err := membership.LoadAccess(hubKubeconfig, "")
	if err != nil {
		return err
	}
	member, err := membership.LoadAccess(a.Kubeconfig, "")
	if err != nil {
		return err
	}
	token, err := credential.CreateToken(ctx, hub.Config, a.Cluster, time.Now().Add(tokenLife))
	if err != nil {
		return err
	}
	bootstrap := rest.AnonymousClientConfig(hub.Config)
	bootstrap.BearerToken = token
	return agents.Register(ctx, bootstrap, member.Config, a.Dir, agents.Registration{Registration: credential.Registration{Name: a.Cluster}})
}

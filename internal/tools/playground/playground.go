package playground

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/tools/playground/machine"
)

// Playground is a running fleet.
type Playground struct {
	config  Config
	out     *progress
	spec    *specFile
	members []*member
	hub     Hub
	hubDone chan struct{}
	hubErr  error

	// cancel ends the hub and, through run, everything else.
	cancel context.CancelCauseFunc
	// stopped is closed when nothing runs any more.
	stopped chan struct{}
	closers []func()
	// answering serves the control socket until closers have closed it.
	answering sync.WaitGroup
}

// errHubEnded is why a playground ends whose hub did so by itself.
var errHubEnded = errors.New("the control plane ended")

// Start brings up the fleet of a data directory and returns when every kind is served and every member is ready. The
// fleet ends when the context is done; Wait returns after that. When Start fails, nothing is left running.
func Start(ctx context.Context, c Config) (*Playground, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	lock, err := machine.TakeDir(c.DataDir)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancelCause(ctx)
	p := &Playground{
		config: c, out: newProgress(c.Out), cancel: cancel,
		stopped: make(chan struct{}), hubDone: make(chan struct{}), closers: []func(){lock.Release},
	}
	if err := p.prepare(); err != nil {
		cancel(nil)
		p.close()
		return nil, err
	}
	starting, done := context.WithTimeoutCause(life, c.StartTimeout, fmt.Errorf("not ready within %s", c.StartTimeout))
	defer done()
	err = p.bringUp(starting, life)
	go p.untilDone(life)
	if err != nil {
		if cause := context.Cause(life); cause != nil {
			err = cause
		} else if cause := context.Cause(starting); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		cancel(err)
		<-p.stopped
		return nil, err
	}
	return p, nil
}

// prepare plans the fleet and opens its files; nothing runs yet.
func (p *Playground) prepare() (err error) {
	dir := layout(p.config.DataDir)
	if p.spec, err = openSpec(dir.spec()); err != nil {
		return err
	}
	ports := machine.NewPortChooser()
	p.closers = append(p.closers, ports.Close) // a member that is stopped keeps its port
	planned, err := plan(p.spec.data, p.config, ports)
	if err != nil {
		return err
	}
	servers := []string{dir.hubData()}
	for _, r := range planned.Members {
		servers = append(servers, dir.memberData(r.Name))
	}
	if err := machine.RequireSpace(p.config.DataDir, servers, machine.FreeSpace); err != nil {
		return err
	}
	if err := requirePorts(planned, p.spec.data); err != nil {
		return err
	}
	if err := p.spec.change(func(r *fleetSpec) { *r = planned }); err != nil {
		return err
	}
	if err := os.MkdirAll(dir.logs(), 0o700); err != nil {
		return fmt.Errorf("making the log directory: %w", err)
	}
	for _, r := range planned.Members {
		m := &member{spec: r, dir: dir, executable: p.config.Executable, failingImages: p.config.FailingImages, onEnd: p.memberEnded, state: Stopped}
		if m.log, err = p.openLog(r.Name); err != nil {
			return err
		}
		if r.Pull {
			if m.agentLog, err = p.openLog(r.Name + agentSuffix); err != nil {
				return err
			}
		}
		p.members = append(p.members, m)
	}
	return nil
}

// openLog opens the log of a process until the playground ends.
func (p *Playground) openLog(name string) (*logFile, error) {
	log, err := openLog(layout(p.config.DataDir).log(name), maxLogBytes)
	if err == nil {
		p.closers = append(p.closers, func() { _ = log.Close() })
	}
	return log, err
}

// requirePorts fails if another process uses one of our ports. Those of the run before may be free only in a moment.
func requirePorts(planned, before fleetSpec) error {
	var patience time.Duration
	if before.HubPort == planned.HubPort {
		patience = machine.Handover
	}
	if err := machine.RequireFree(planned.HubPort, "the control plane", patience, clock.RealClock{}); err != nil {
		return err
	}
	for _, m := range planned.Members {
		if err := machine.RequireFree(m.Port, m.Name, machine.Handover, clock.RealClock{}); err != nil {
			return err
		}
	}
	return nil
}

// bringUp starts hub and members side by side, and joins each member as soon as both serve.
func (p *Playground) bringUp(ctx, life context.Context) error {
	p.out.say("Starting a control plane and %d members in %s", len(p.members), p.config.DataDir)
	l, err := listenControl(p.config.DataDir)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, func() { _ = l.Close(); removeSocket(p.config.DataDir) })
	p.answering.Go(func() { p.serveControl(life, l) })

	hubServes := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := p.startHub(life); err != nil {
			return err
		}
		close(hubServes)
		return p.waitForKinds(ctx)
	})
	for _, m := range p.members {
		group.Go(func() error {
			if err := m.start(ctx); err != nil {
				return err
			}
			p.out.say("  %-9s serves on %s", m.spec.Name, serverURL(m.spec.Port))
			select {
			case <-hubServes:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return p.takeIn(ctx, m)
		})
	}
	return group.Wait()
}

func (p *Playground) startHub(life context.Context) error {
	log, err := p.openLog("hub")
	if err != nil {
		return err
	}
	port := p.spec.data.HubPort
	hub, err := p.config.StartHub(life, HubOptions{
		DataDir: layout(p.config.DataDir).hubData(), Port: port, Profiling: p.config.Profiling, Log: log,
		BootstrapTokens: slices.ContainsFunc(p.members, func(m *member) bool { return m.spec.Pull }),
	})
	if err != nil {
		return fmt.Errorf("starting the control plane: %w", err)
	}
	p.hub = hub
	go func() {
		p.hubErr = hub.Wait()
		close(p.hubDone)
	}()
	if err := hub.WriteKubeconfig(HubKubeconfig(p.config.DataDir)); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	p.out.say("  %-9s serves on %s", "hub", serverURL(port))
	return nil
}

// untilDone waits for the end of the context or of the hub, and then ends everything, members and hub side by side.
func (p *Playground) untilDone(life context.Context) {
	if p.hub == nil {
		<-life.Done()
	} else {
		select {
		case <-life.Done():
		case <-p.hubDone:
		}
	}
	if life.Err() == nil {
		p.cancel(errors.Join(errHubEnded, p.hubErr))
	}
	var group sync.WaitGroup
	for _, m := range p.members {
		group.Go(m.stop)
	}
	group.Wait()
	if p.hub != nil {
		select {
		case <-p.hubDone:
		case <-time.After(stopPatience): // counted after the members, which had as long
		}
	}
	p.close()
	p.answering.Wait()
	close(p.stopped)
}

func (p *Playground) close() {
	for _, c := range p.closers {
		c()
	}
}

// Wait returns when everything has ended: nil if that was the caller's wish, else why.
func (p *Playground) Wait() error {
	<-p.stopped
	if p.hubErr != nil {
		return fmt.Errorf("%w: %w (log: %s)", errHubEnded, p.hubErr, layout(p.config.DataDir).log("hub"))
	}
	return nil
}

// HubConfig is a client configuration for the control plane with all rights.
func (p *Playground) HubConfig() *rest.Config { return rest.CopyConfig(p.hub.LoopbackConfig()) }

// DataDir is the absolute path of the data directory.
func (p *Playground) DataDir() string { return p.config.DataDir }

// Members describes what every member is doing.
func (p *Playground) Members() []MemberStatus {
	out := make([]MemberStatus, 0, len(p.members))
	for _, m := range p.members {
		state, run := m.status()
		status := MemberStatus{Name: m.spec.Name, State: state, Server: serverURL(m.spec.Port)}
		if run != nil {
			status.PID = run.Cmd.Process.Pid
		}
		if agent := m.runningAgent(); agent != nil {
			status.AgentPID = agent.Cmd.Process.Pid
		}
		out = append(out, status)
	}
	return out
}

func (p *Playground) member(name string) (*member, bool) {
	for _, m := range p.members {
		if m.spec.Name == name {
			return m, true
		}
	}
	return nil, false
}

func (p *Playground) memberEnded(name, how string) {
	member := strings.TrimSuffix(name, agentSuffix)
	p.out.say("%s has ended (%s); start it again with: flagship member start %s --data-dir %s", name, how, member, p.config.DataDir)
}

func serverURL(port int) string {
	return "https://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
}

package hub

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/flagship-k8s/flagship/internal/apiserver"
	"github.com/flagship-k8s/flagship/internal/apply"
	"github.com/flagship-k8s/flagship/internal/event"
	"github.com/flagship-k8s/flagship/internal/interpret"
	"github.com/flagship-k8s/flagship/internal/interpret/builtin"
	"github.com/flagship-k8s/flagship/internal/member"
	"github.com/flagship-k8s/flagship/internal/observe"
	"github.com/flagship-k8s/flagship/internal/propagate"
	"github.com/flagship-k8s/flagship/internal/render"
	"github.com/flagship-k8s/flagship/internal/report"
	"github.com/flagship-k8s/flagship/internal/template"
)

// house is what several rooms use.
type house struct {
	mgr         ctrl.Manager
	options     Options
	templates   *template.Store
	fleet       *member.Fleet
	events      *event.Deduplicating
	reports     *report.Writer
	interpreter interpret.Interpreter
}

// furnish constructs every loop of the control plane, in the order in which an object meets them.
func furnish(ctx context.Context, mgr ctrl.Manager, server *apiserver.Server, o Options) error {
	h, err := newHouse(mgr, o)
	if err != nil {
		return err
	}
	loops := []struct {
		name  string
		setup func() error
	}{
		{"events", func() error { return mgr.Add(h.events) }},
		{"template", func() error { return mgr.Add(h.templates) }},
		{"member", func() error { return member.Setup(mgr, member.Deps{Fleet: h.fleet}) }},
		{"propagate", func() error { return h.setupPropagate(ctx) }},
		{"render", func() error { return h.setupRender(ctx) }},
		{"apply", h.setupApply},
		{"clusters", h.setupClusters},
		{"report", func() error { return mgr.Add(h.reports) }},
	}
	var running atomic.Bool
	for _, l := range loops {
		if err := l.setup(); err != nil {
			return fmt.Errorf("setting up %s: %w", l.name, err)
		}
		server.AddLoop(l.name, func() error {
			if !running.Load() {
				return errors.New("not started yet")
			}
			return nil
		})
	}
	return mgr.Add(whileRunning(&running))
}

// whileRunning is true from when the caches are filled until the manager ends.
func whileRunning(running *atomic.Bool) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		running.Store(true)
		<-ctx.Done()
		running.Store(false)
		return nil
	})
}

func newHouse(mgr ctrl.Manager, o Options) (*house, error) {
	cfg := mgr.GetConfig()
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client for any kind: %w", err)
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building a client for metadata: %w", err)
	}
	reports, err := report.New(report.Config{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: o.Clock})
	if err != nil {
		return nil, fmt.Errorf("building the reporter: %w", err)
	}
	fleet, err := member.NewFleet(member.Config{Credentials: credentials(mgr.GetClient()), Clock: o.Clock})
	if err != nil {
		return nil, fmt.Errorf("building the fleet: %w", err)
	}
	return &house{
		mgr:     mgr,
		options: o,
		templates: template.New(template.Config{
			Metadata: meta, Dynamic: dyn, Clock: o.Clock,
			Discover: func(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
				return discovery.ServerGroupsAndResources(kube.Discovery())
			},
		}),
		fleet: fleet,
		events: event.New(func(ctx context.Context, e *corev1.Event) error {
			_, err := kube.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
			return err
		}, o.Clock),
		reports:     reports,
		interpreter: interpret.Chain(builtin.New(o.Clock)),
	}, nil
}

func (h *house) setupPropagate(ctx context.Context) error {
	return propagate.Setup(ctx, h.mgr, propagate.Deps{
		Templates: h.templates, Interpreter: h.interpreter, Events: h.events, Clock: h.options.Clock, NewID: uuid.NewString,
	})
}

func (h *house) setupRender(ctx context.Context) error {
	return render.Setup(ctx, h.mgr, render.Deps{
		Template: h.templates.Get, Metadata: h.templates.Meta,
		Interpreter: h.interpreter, Events: h.events, Clock: h.options.Clock, NewID: uuid.NewString,
	})
}

func (h *house) setupApply() error {
	return apply.Setup(h.mgr, apply.Deps{Fleet: h.fleet, Report: h.reports, Events: h.events, Clock: h.options.Clock})
}

func (h *house) setupClusters() error {
	return observe.SetupClusters(h.mgr, observe.ClusterDeps{
		Fleet: h.fleet, Events: h.events, Clock: h.options.Clock, ProbePeriod: h.options.ProbePeriod,
		FailureThreshold: h.options.FailureThreshold, SuccessThreshold: h.options.SuccessThreshold,
	})
}

package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Stand is a fleet with observers on every API server.
type Stand struct {
	*fleet.Fleet
	Top *fleet.Cluster
	far map[string]*fleet.Cluster

	mu sync.Mutex
	// writes are how long the bench's own writes took in the current phase, in seconds.
	writes []float64
}

// write makes a write of the bench, as a user does, and records how long it takes.
func (s *Stand) write(request func() error) error {
	began := time.Now()
	err := request()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, time.Since(began).Seconds())
	return err
}

// newStand connects to a fleet. It is to be closed after an error, too.
func newStand(ctx context.Context, f *fleet.Fleet) (s *Stand, err error) {
	s = &Stand{Fleet: f, far: map[string]*fleet.Cluster{}}
	if s.Top, err = fleet.Connect(ctx, f.Hub, true); err != nil {
		return s, err
	}
	for name, cfg := range f.Members {
		if s.far[name], err = fleet.Connect(ctx, cfg, false); err != nil {
			return s, err
		}
		if err := s.far[name].ReportReady(ctx); err != nil {
			return s, err
		}
	}
	if err := fleet.PrepareNamespace(ctx, s.Top); err != nil {
		return s, err
	}
	return s, fleet.AwaitCalm(ctx, s.Top.Kube)
}

// close ends what watches the clusters.
func (s *Stand) close() {
	s.Top.Close()
	for _, member := range s.far {
		member.Close()
	}
}

// everywhere waits until a condition holds in every member.
func (s *Stand) everywhere(ctx context.Context, what string, holds func(map[string]any) bool) (time.Time, error) {
	var last time.Time
	for name, m := range s.far {
		at, err := m.Until(ctx, what+" in "+name, holds)
		if err != nil {
			return at, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last, nil
}

// Parallel runs n numbered steps from a number of writers.
func Parallel(ctx context.Context, writers, n int, step func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range n {
		g.Go(func() error { return step(ctx, i) })
	}
	return g.Wait()
}

// phase is one measured stretch of work.
type phase struct {
	stand   *Stand
	result  Result
	started time.Time
	before  fleet.Usage
	counted fleet.Writes
}

func (s *Stand) begin(ctx context.Context, name string, objects int) (*phase, error) {
	counted, err := fleet.CountWrites(ctx, s.Top.Kube)
	if err != nil {
		return nil, err
	}
	before, err := s.Usage()
	if err != nil {
		return nil, err
	}
	s.writes = nil
	return &phase{
		stand: s, started: time.Now(), before: before, counted: counted,
		result: Result{Name: name, Objects: objects, Members: len(s.far)},
	}, nil
}

// end fills in what the hub consumed and wrote; own is the number of writes per object that the bench itself made.
func (p *phase) end(ctx context.Context, own float64) (Result, error) {
	after, err := p.stand.Usage()
	if err != nil {
		return Result{}, err
	}
	counted, err := fleet.CountWrites(ctx, p.stand.Top.Kube)
	if err != nil {
		return Result{}, err
	}
	n := float64(p.result.Objects)
	p.result.CPUPerObject = (after.Cpu - p.before.Cpu).Seconds() / n
	p.result.PeakRSS = after.PeakRSS
	p.result.Writes = map[string]float64{}
	since := counted.Since(p.counted)
	for k, v := range since {
		p.result.Writes[k] = v / n
	}
	p.result.WritesPerObject = since.Total()/n - own
	p.result.UserP50, p.result.UserP95 = quantile(p.stand.writes, .5), quantile(p.stand.writes, .95)
	return p.result, nil
}

func (p *phase) seconds(at time.Time) float64 { return at.Sub(p.started).Seconds() }

// deployments is scenarios (a) and (e): n Deployments with a policy each.
func (s *Stand) deployments(ctx context.Context, name string, n int) (Result, error) {
	p, err := s.begin(ctx, name, n)
	if err != nil {
		return Result{}, err
	}
	err = Parallel(ctx, 10, n, func(ctx context.Context, i int) error { return s.createDeployment(ctx, fleet.DeploymentName(i)) })
	if err != nil {
		return Result{}, err
	}
	at, err := s.everywhere(ctx, "deployments", func(o map[string]any) bool { return fleet.Count(o, "deployment", fleet.Anything) >= n })
	if err != nil {
		return Result{}, err
	}
	p.result.InMembers = p.seconds(at)
	want := n * len(s.far)
	at, err = s.Top.Until(ctx, "works to be applied", func(o map[string]any) bool { return fleet.Count(o, "work", fleet.WorkApplied) >= want })
	if err != nil {
		return Result{}, err
	}
	p.result.Applied = p.seconds(at)
	at, err = s.Top.Until(ctx, "template status", func(o map[string]any) bool {
		return fleet.Count(o, "deployment", fleet.CarriesStatus(len(s.far))) >= n
	})
	if err != nil {
		return Result{}, err
	}
	p.result.Status = p.seconds(at)
	return p.end(ctx, 2)
}

func (s *Stand) createDeployment(ctx context.Context, name string) error {
	policy := fleet.Duplicated(name, fleet.SelectDeployment(name))
	err := s.write(func() error {
		_, err := s.Top.Dynamic.Resource(fleet.Policies).Namespace(fleet.Namespace).Create(ctx, policy, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating policy %s: %w", name, err)
	}
	err = s.write(func() error {
		_, err := s.Top.Kube.AppsV1().Deployments(fleet.Namespace).Create(ctx, fleet.Deployment(name, 2), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("creating deployment %s: %w", name, err)
	}
	return nil
}

// createConfigMaps creates n ConfigMaps and one policy for them.
func (s *Stand) createConfigMaps(ctx context.Context, n int) error {
	policy := fleet.Duplicated("configmaps", fleet.SelectConfigMaps())
	if _, err := s.Top.Dynamic.Resource(fleet.Policies).Namespace(fleet.Namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the policy: %w", err)
	}
	err := Parallel(ctx, 10, n, func(ctx context.Context, i int) error {
		return s.write(func() error {
			_, err := s.Top.Kube.CoreV1().ConfigMaps(fleet.Namespace).Create(ctx, fleet.ConfigMap(fleet.ConfigMapName(i)), metav1.CreateOptions{})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("creating configmaps: %w", err)
	}
	return nil
}

// configMaps is scenario (b): n objects under one policy.
func (s *Stand) configMaps(ctx context.Context, n int) (Result, error) {
	p, err := s.begin(ctx, fmt.Sprintf("(b) %d ConfigMaps, one policy", n), n)
	if err != nil {
		return Result{}, err
	}
	if err := s.createConfigMaps(ctx, n); err != nil {
		return Result{}, err
	}
	at, err := s.everywhere(ctx, "configmaps", func(o map[string]any) bool {
		return fleet.Count(o, "configmap", ofBench) >= n
	})
	if err != nil {
		return Result{}, err
	}
	p.result.InMembers = p.seconds(at)
	return p.end(ctx, 1)
}

// change is scenario (c): one field in all n Deployments.
func (s *Stand) change(ctx context.Context, n int) (Result, error) {
	p, err := s.begin(ctx, fmt.Sprintf("(c) one field changed in %d Deployments", n), n)
	if err != nil {
		return Result{}, err
	}
	const image = "nginx:1.28"
	patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"` + image + `"}]}}}}`)
	err = Parallel(ctx, 10, n, func(ctx context.Context, i int) error {
		return s.write(func() error {
			_, err := s.Top.Kube.AppsV1().Deployments(fleet.Namespace).Patch(ctx, fleet.DeploymentName(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	})
	if err != nil {
		return Result{}, fmt.Errorf("changing deployments: %w", err)
	}
	at, err := s.everywhere(ctx, "the change", func(o map[string]any) bool { return fleet.Count(o, "deployment", fleet.RunsImage(image)) >= n })
	if err != nil {
		return Result{}, err
	}
	p.result.InMembers = p.seconds(at)
	at, err = s.Top.Until(ctx, "template status", func(o map[string]any) bool {
		return fleet.Count(o, "deployment", fleet.CarriesStatus(len(s.far))) >= n
	})
	if err != nil {
		return Result{}, err
	}
	p.result.Status = p.seconds(at)
	return p.end(ctx, 1)
}

// latency is scenario (d): one Deployment with its policy at a time.
func (s *Stand) latency(ctx context.Context, samples int) (Result, error) {
	p, err := s.begin(ctx, "(d) one Deployment with its policy", samples)
	if err != nil {
		return Result{}, err
	}
	var members, status []float64
	for i := range samples {
		name := fmt.Sprintf("single-%04d", i)
		key := "deployment/" + fleet.Namespace + "/" + name
		started := time.Now()
		if err := s.createDeployment(ctx, name); err != nil {
			return Result{}, err
		}
		at, err := s.everywhere(ctx, name, func(o map[string]any) bool { return o[key] != nil })
		if err != nil {
			return Result{}, err
		}
		members = append(members, at.Sub(started).Seconds())
		at, err = s.Top.Until(ctx, "the status of "+name, func(o map[string]any) bool { return fleet.CarriesStatus(len(s.far))(o[key]) })
		if err != nil {
			return Result{}, err
		}
		status = append(status, at.Sub(started).Seconds())
	}
	p.result.MembersP50, p.result.MembersP95 = quantile(members, .5), quantile(members, .95)
	p.result.StatusP50, p.result.StatusP95 = quantile(status, .5), quantile(status, .95)
	return p.end(ctx, 2)
}

// deletion removes n Deployments of scenario (a) and waits until members and hub hold nothing of them.
func (s *Stand) deletion(ctx context.Context, n int) (Result, error) {
	p, err := s.begin(ctx, fmt.Sprintf("deletion of %d Deployments", n), n)
	if err != nil {
		return Result{}, err
	}
	prefix := "deployment/" + fleet.Namespace + "/app-"
	gone := func(o map[string]any) bool {
		for key := range o {
			if len(key) >= len(prefix) && key[:len(prefix)] == prefix {
				return false
			}
		}
		return true
	}
	err = Parallel(ctx, 10, n, func(ctx context.Context, i int) error {
		return s.write(func() error {
			return s.Top.Kube.AppsV1().Deployments(fleet.Namespace).Delete(ctx, fleet.DeploymentName(i), metav1.DeleteOptions{})
		})
	})
	if err != nil {
		return Result{}, fmt.Errorf("deleting deployments: %w", err)
	}
	at, err := s.everywhere(ctx, "deployments to go", gone)
	if err != nil {
		return Result{}, err
	}
	p.result.InMembers = p.seconds(at)
	at, err = s.Top.Until(ctx, "works to go", func(o map[string]any) bool {
		return fleet.Count(o, "work", func(obj any) bool { return named(obj, "app-") }) == 0
	})
	if err != nil {
		return Result{}, err
	}
	p.result.Applied = p.seconds(at)
	return p.end(ctx, 1)
}

func named(obj any, prefix string) bool {
	m, ok := obj.(metav1.Object)
	return ok && len(m.GetName()) >= len(prefix) && m.GetName()[:len(prefix)] == prefix
}

// quantile is the nearest-rank quantile of a sample.
func quantile(sample []float64, q float64) float64 {
	if len(sample) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(sample))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

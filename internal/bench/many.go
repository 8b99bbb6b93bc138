package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	manyWorks = 10_000
	// calm is how long nothing happens before memory is measured: what a burst took is given back by then.
	calm = 30 * time.Second
)

// Memory is what a number of Works in one member takes in the hub's process, API server and storage included. Sizes are
// resident bytes.
type Memory struct {
	// Before any Work, With all of them a while after the last was applied, and After all of them were deleted.
	Before, With, After int64
}

func runMany(ctx context.Context, o Options) (Result, error) {
	results, err := onFleet(ctx, o, 1, func(s *stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (Result, error) { return s.many(ctx, manyWorks) }}}
	})
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// many is scenario (f): n objects under one policy in one member, which stay a while and go again.
func (s *stand) many(ctx context.Context, n int) (Result, error) {
	memory := &Memory{}
	var err error
	if memory.Before, err = s.calmRSS(ctx); err != nil {
		return Result{}, err
	}
	p, err := s.begin(ctx, fmt.Sprintf("(f) %d ConfigMaps in one member", n), n)
	if err != nil {
		return Result{}, err
	}
	policy := duplicated("configmaps", selectConfigMaps())
	if _, err := s.top.dynamic.Resource(policies).Namespace(namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return Result{}, fmt.Errorf("creating the policy: %w", err)
	}
	err = parallel(ctx, 10, n, func(ctx context.Context, i int) error {
		_, err := s.top.kube.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(configMapName(i)), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return Result{}, fmt.Errorf("creating configmaps: %w", err)
	}
	for _, m := range s.far {
		if err := m.poll(ctx, "configmaps", func(o map[string]any) bool { return count(o, "configmap", ofBench) >= n }); err != nil {
			return Result{}, err
		}
	}
	p.result.InMembers = p.seconds(time.Now())
	if err := s.top.poll(ctx, "works to be applied", func(o map[string]any) bool { return count(o, "work", workApplied) >= n }); err != nil {
		return Result{}, err
	}
	p.result.Applied = p.seconds(time.Now())
	result, err := p.end(ctx, 1)
	if err != nil {
		return Result{}, err
	}
	if memory.With, err = s.calmRSS(ctx); err != nil {
		return Result{}, err
	}
	// One by one: a deletion of all in one request takes longer than a request may.
	err = parallel(ctx, 10, n, func(ctx context.Context, i int) error {
		return s.top.kube.CoreV1().ConfigMaps(namespace).Delete(ctx, configMapName(i), metav1.DeleteOptions{})
	})
	if err != nil {
		return Result{}, fmt.Errorf("deleting configmaps: %w", err)
	}
	err = s.top.poll(ctx, "works to go", func(o map[string]any) bool {
		return count(o, "work", func(obj any) bool { return named(obj, "config-") }) == 0
	})
	if err != nil {
		return Result{}, err
	}
	if memory.After, err = s.calmRSS(ctx); err != nil {
		return Result{}, err
	}
	result.Memory = memory
	return result, nil
}

func ofBench(obj any) bool { return named(obj, "config-") }

// calmRSS is what the hub holds after a while of calm.
func (s *stand) calmRSS(ctx context.Context) (int64, error) {
	timer := time.NewTimer(calm)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	u, err := s.usage()
	return u.rss, err
}

// poll is until for very many objects, where a look after every change would take more time than what is measured.
func (o *observer) poll(ctx context.Context, what string, holds func(map[string]any) bool) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		o.mu.Lock()
		ok := holds(o.objects)
		o.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

func printMemory(out io.Writer, results []Result) {
	for _, r := range results {
		if m := r.Memory; m != nil {
			fmt.Fprintf(out, "\nMemory, %s: %d MB before, %d MB with all of them (%.1f kB each), %d MB after their deletion\n",
				r.Name, m.Before/1e6, m.With/1e6, float64(m.With-m.Before)/float64(r.Objects)/1e3, m.After/1e6)
		}
	}
}

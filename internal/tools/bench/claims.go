package bench

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	manyClaims = 5000
	// warmClaims come before the measured ones, so that the kind that is measured first does not pay for connections,
	// caches and a heap that the second one finds.
	warmClaims = 500
	// claimLists is how often all claims are listed; one list is over too soon to be measured.
	claimLists   = 10
	claimWriters = 10
	// claimRounds is in how many shares each step is taken, one kind after the other.
	claimRounds = 5
)

// ClaimResult is what one step costs with one of the two kinds of resource claims.
type ClaimResult struct {
	// Step is create, update status or list; Version is that of the kind.
	Step    string `json:"step"`
	Version string `json:"version"`
	Claims  int    `json:"claims"`
	// Seconds is wall clock for all claims, or for one list of them; CPUSeconds is that of the whole hub meanwhile.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// AllocatedBytes is what the hub allocated meanwhile, HeldBytes by how much its live heap grew; both for all claims.
	AllocatedBytes int64 `json:"allocatedBytes"`
	HeldBytes      int64 `json:"heldBytes"`
}

// claimKind is one of the two models of resource claims.
type claimKind struct {
	version      string
	spec, status map[string]any
}

func claimKinds() []claimKind {
	return []claimKind{
		{
			version: "v1",
			spec: map[string]any{"devices": map[string]any{"requests": []any{map[string]any{
				"name": "claim", "exactly": map[string]any{"deviceClassName": "gpu.example.com"},
			}}}},
			status: map[string]any{
				"allocation": map[string]any{"devices": map[string]any{"results": []any{map[string]any{
					"request": "claim", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-1",
				}}}},
				"reservedFor": []any{map[string]any{"resource": "pods", "name": "consumer", "uid": "6f1f8c80-53a9-4c3c-9a31-2a0b9d4f4c11"}},
			},
		},
		{
			version: "v1alpha2",
			spec:    map[string]any{"resourceClassName": "gpu.example.com"},
			status: map[string]any{
				"driverName":  "gpu.example.com",
				"allocation":  map[string]any{"resourceHandles": []any{map[string]any{"driverName": "gpu.example.com", "data": "node-1/gpu-1"}}},
				"reservedFor": []any{map[string]any{"resource": "pods", "name": "consumer", "uid": "6f1f8c80-53a9-4c3c-9a31-2a0b9d4f4c11"}},
			},
		},
	}
}

// runClaims measures resource claims of v1alpha2 against the built-in kind, on a hub without members.
func runClaims(ctx context.Context, o Options) (results []ClaimResult, err error) {
	_, err = onFleet(ctx, o, 0, func(s *Stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (Result, error) {
			results, err = s.claims(ctx)
			return Result{Name: "resource claims"}, err
		}}}
	})
	return results, err
}

// claims takes every step with both kinds in turns, and first with the one, then with the other: whatever else the machine
// does meanwhile, and what the hub has to hold by then, falls on both.
func (s *Stand) claims(ctx context.Context) ([]ClaimResult, error) {
	var pair []*claimSet
	for _, kind := range claimKinds() {
		warm := s.claimSet(kind, "warm", warmClaims)
		for _, step := range warm.steps() {
			if err := warm.round(ctx, step, 0, 1); err != nil {
				return nil, err
			}
		}
		if err := warm.remove(ctx); err != nil {
			return nil, err
		}
		pair = append(pair, s.claimSet(kind, "claim", manyClaims))
	}
	for n := range pair[0].steps() {
		for round := range claimRounds {
			for i := range pair {
				set := pair[(i+round)%len(pair)]
				if err := set.round(ctx, set.steps()[n], round, claimRounds); err != nil {
					return nil, err
				}
			}
		}
	}
	var all []ClaimResult
	for _, set := range pair {
		for _, step := range set.steps() {
			all = append(all, *step.result)
		}
		if err := set.remove(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// claimSet is the claims of one kind, and what they cost.
type claimSet struct {
	stand    *Stand
	kind     claimKind
	resource schema.GroupVersionResource
	claims   dynamic.ResourceInterface
	prefix   string
	versions []string // of the claims, by number

	created, updated, listed ClaimResult
}

func (s *Stand) claimSet(kind claimKind, prefix string, n int) *claimSet {
	resource := schema.GroupVersionResource{Group: "resource.k8s.io", Version: kind.version, Resource: "resourceclaims"}
	result := func(step string) ClaimResult { return ClaimResult{Step: step, Version: kind.version, Claims: n} }
	return &claimSet{
		stand: s, kind: kind, resource: resource, claims: s.Top.Dynamic.Resource(resource).Namespace(fleet.Namespace), prefix: prefix,
		versions: make([]string, n), created: result("create"), updated: result("update status"), listed: result("list"),
	}
}

// claimStep is something to do with each claim, or with all.
type claimStep struct {
	result *ClaimResult
	each   func(context.Context, int) error
	all    func(context.Context) error
}

func (c *claimSet) steps() []claimStep {
	return []claimStep{{result: &c.created, each: c.create}, {result: &c.updated, each: c.update}, {result: &c.listed, all: c.list}}
}

// round takes the i-th of n shares of a step, and adds what it costs to the result. Of lists the result is that of one.
func (c *claimSet) round(ctx context.Context, step claimStep, i, n int) error {
	before, result := *step.result, step.result
	err := c.stand.measureClaims(ctx, result, func() error {
		if step.all != nil {
			for range claimLists / n {
				if err := step.all(ctx); err != nil {
					return err
				}
			}
			return nil
		}
		share := result.Claims / n
		return Parallel(ctx, claimWriters, share, func(ctx context.Context, k int) error { return step.each(ctx, i*share+k) })
	})
	if err != nil {
		return fmt.Errorf("%s of claims of %s: %w", result.Step, c.kind.version, err)
	}
	if step.all != nil {
		result.Seconds = before.Seconds + (result.Seconds-before.Seconds)/claimLists
		result.CPUSeconds = before.CPUSeconds + (result.CPUSeconds-before.CPUSeconds)/claimLists
		result.AllocatedBytes = before.AllocatedBytes + (result.AllocatedBytes-before.AllocatedBytes)/claimLists
	}
	return nil
}

func (c *claimSet) object(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": c.resource.GroupVersion().String(), "kind": "ResourceClaim",
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%05d", c.prefix, i), "namespace": fleet.Namespace}, "spec": c.kind.spec,
	}}
}

func (c *claimSet) create(ctx context.Context, i int) error {
	obj, err := c.claims.Create(ctx, c.object(i), metav1.CreateOptions{})
	if err == nil {
		c.versions[i] = obj.GetResourceVersion()
	}
	return err
}

func (c *claimSet) update(ctx context.Context, i int) error {
	obj := c.object(i)
	obj.SetResourceVersion(c.versions[i])
	obj.Object["status"] = c.kind.status
	_, err := c.claims.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	return err
}

// list lists all claims, without decoding them: that would be the bench's own time.
func (c *claimSet) list(ctx context.Context) error {
	path := fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", c.resource.Group, c.resource.Version, fleet.Namespace, c.resource.Resource)
	data, err := c.stand.Top.Kube.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err == nil && strings.Count(string(data), `"uid":"6f1f8c80`) != len(c.versions) {
		err = fmt.Errorf("the list does not show %d reserved claims", len(c.versions))
	}
	return err
}

func (c *claimSet) remove(ctx context.Context) error {
	if err := c.claims.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting claims: %w", err)
	}
	return nil
}

// measureClaims runs something and adds to the result what it took.
func (s *Stand) measureClaims(ctx context.Context, r *ClaimResult, run func() error) error {
	heapBefore, err := s.Heap(ctx)
	if err != nil {
		return err
	}
	before, err := s.Usage()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := run(); err != nil {
		return err
	}
	r.Seconds += time.Since(started).Seconds()
	after, err := s.Usage()
	if err != nil {
		return err
	}
	heapAfter, err := s.Heap(ctx)
	if err != nil {
		return err
	}
	r.CPUSeconds += (after.Cpu - before.Cpu).Seconds()
	r.AllocatedBytes += heapAfter.allocated - heapBefore.allocated
	r.HeldBytes += heapAfter.Live - heapBefore.Live
	return nil
}

// heap is the state of the hub's heap just after a collection.
type heap struct{ Live, allocated int64 }

func (s *Stand) Heap(ctx context.Context) (heap, error) {
	text, err := s.Top.Kube.Discovery().RESTClient().Get().AbsPath(fleet.HeapProfile).Param("gc", "1").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		return heap{}, fmt.Errorf("reading the state of the heap: %w", err)
	}
	return parseHeap(string(text))
}

// parseHeap reads the figures at the end of a heap profile in text form.
func parseHeap(text string) (heap, error) {
	var h heap
	for name, into := range map[string]*int64{"# HeapAlloc = ": &h.Live, "# TotalAlloc = ": &h.allocated} {
		_, rest, found := strings.Cut(text, name)
		if !found {
			return h, fmt.Errorf("the heap profile lacks %q", strings.TrimSpace(name))
		}
		figure, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseInt(figure, 10, 64)
		if err != nil {
			return h, fmt.Errorf("reading the heap profile: %w", err)
		}
		*into = n
	}
	return h, nil
}

// printClaims prints the two kinds side by side, v1alpha2 as a multiple of v1.
func printClaims(out io.Writer, results []ClaimResult) {
	if len(results) == 0 {
		return
	}
	of := map[string]ClaimResult{}
	for _, r := range results {
		of[r.Version+" "+r.Step] = r
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "\n%d RESOURCE CLAIMS\tTIME v1alpha2 / v1\tCPU\tALLOCATED\tHELD\n", results[0].Claims)
	for _, r := range results {
		if r.Version != "v1alpha2" {
			continue
		}
		base := of["v1 "+r.Step]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Step,
			against(r.Seconds, base.Seconds, "s"), against(r.CPUSeconds, base.CPUSeconds, "s"),
			against(float64(r.AllocatedBytes)/1e6, float64(base.AllocatedBytes)/1e6, "MB"),
			against(float64(r.HeldBytes)/1e6, float64(base.HeldBytes)/1e6, "MB"))
	}
	_ = w.Flush()
}

func against(a, b float64, unit string) string {
	if b <= 0 {
		return fmt.Sprintf("%.2f / %.2f %s", a, b, unit)
	}
	return fmt.Sprintf("%.2f / %.2f %s (%.2f)", a, b, unit, a/b)
}

package bench

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

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
	_, err = onFleet(ctx, o, 0, func(s *stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (Result, error) {
			results, err = s.claims(ctx)
			return Result{Name: "resource claims"}, err
		}}}
	})
	return results, err
}

func (s *stand) claims(ctx context.Context) ([]ClaimResult, error) {
	for _, kind := range claimKinds() {
		if _, err := s.claimsOf(ctx, kind, "warm", warmClaims); err != nil {
			return nil, err
		}
	}
	var all []ClaimResult
	for _, kind := range claimKinds() {
		results, err := s.claimsOf(ctx, kind, "claim", manyClaims)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	return all, nil
}

// claimsOf makes n claims, gives each a status, lists them and removes them.
func (s *stand) claimsOf(ctx context.Context, kind claimKind, prefix string, n int) ([]ClaimResult, error) {
	resource := schema.GroupVersionResource{Group: "resource.k8s.io", Version: kind.version, Resource: "resourceclaims"}
	claims := s.top.dynamic.Resource(resource).Namespace(namespace)
	step := func(name string, run func(context.Context, int) error) (ClaimResult, error) {
		return s.claimStep(ctx, ClaimResult{Step: name, Version: kind.version, Claims: n}, func() error {
			if name == "list" {
				return parallel(ctx, 1, claimLists, run)
			}
			return parallel(ctx, claimWriters, n, run)
		})
	}
	objectOf := func(i int) *unstructured.Unstructured {
		name := fmt.Sprintf("%s-%05d", prefix, i)
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": "ResourceClaim",
			"metadata": map[string]any{"name": name, "namespace": namespace}, "spec": kind.spec,
		}}
	}
	versions := make([]string, n)
	created, err := step("create", func(ctx context.Context, i int) error {
		obj, err := claims.Create(ctx, objectOf(i), metav1.CreateOptions{})
		if err == nil {
			versions[i] = obj.GetResourceVersion()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating claims of %s: %w", kind.version, err)
	}
	updated, err := step("update status", func(ctx context.Context, i int) error {
		obj := objectOf(i)
		obj.SetResourceVersion(versions[i])
		obj.Object["status"] = kind.status
		_, err := claims.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("updating claims of %s: %w", kind.version, err)
	}
	listed, err := step("list", func(ctx context.Context, _ int) error { return listClaims(ctx, s, resource, n) })
	if err != nil {
		return nil, fmt.Errorf("listing claims of %s: %w", kind.version, err)
	}
	listed.Seconds /= claimLists
	listed.CPUSeconds /= claimLists
	listed.AllocatedBytes /= claimLists
	return []ClaimResult{created, updated, listed}, emptied(ctx, claims)
}

// listClaims asks for all claims, without decoding them: that would be the bench's own time.
func listClaims(ctx context.Context, s *stand, resource schema.GroupVersionResource, n int) error {
	path := fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s", resource.Group, resource.Version, namespace, resource.Resource)
	data, err := s.top.kube.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err == nil && strings.Count(string(data), `"uid":"6f1f8c80`) != n {
		err = fmt.Errorf("the list does not show %d reserved claims", n)
	}
	return err
}

func emptied(ctx context.Context, claims dynamic.ResourceInterface) error {
	if err := claims.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("deleting claims: %w", err)
	}
	return nil
}

// claimStep runs one step and fills in what it took.
func (s *stand) claimStep(ctx context.Context, r ClaimResult, run func() error) (ClaimResult, error) {
	heapBefore, err := s.heap(ctx)
	if err != nil {
		return r, err
	}
	before, err := s.usage()
	if err != nil {
		return r, err
	}
	started := time.Now()
	if err := run(); err != nil {
		return r, err
	}
	r.Seconds = time.Since(started).Seconds()
	after, err := s.usage()
	if err != nil {
		return r, err
	}
	heapAfter, err := s.heap(ctx)
	if err != nil {
		return r, err
	}
	r.CPUSeconds = (after.cpu - before.cpu).Seconds()
	r.AllocatedBytes = heapAfter.allocated - heapBefore.allocated
	r.HeldBytes = heapAfter.live - heapBefore.live
	return r, nil
}

// heap is the state of the hub's heap just after a collection.
type heap struct{ live, allocated int64 }

func (s *stand) heap(ctx context.Context) (heap, error) {
	text, err := s.top.kube.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Param("debug", "1").DoRaw(ctx)
	if err != nil {
		return heap{}, fmt.Errorf("reading the state of the heap: %w", err)
	}
	return parseHeap(string(text))
}

// parseHeap reads the figures at the end of a heap profile in text form.
func parseHeap(text string) (heap, error) {
	var h heap
	for name, into := range map[string]*int64{"# HeapAlloc = ": &h.live, "# TotalAlloc = ": &h.allocated} {
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

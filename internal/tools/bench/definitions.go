package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	manyDefinitions   = 500
	definitionWriters = 4
	// definitionFields is how many fields the schema of a kind has, each with a description: some 15 KB, about as much as
	// one of cert-manager's smaller kinds.
	definitionFields = 120
)

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// DefinitionResult is what many definitions cost a hub without members.
type DefinitionResult struct {
	Definitions int `json:"definitions"`
	// Seconds is until the last one was established, CPUSeconds that of the whole hub until it was at rest again.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// HeldBytes is by how much the live heap grew, ExplainedBytes by how much after the OpenAPI documents of both
	// versions had been asked for, RSSBytes by how much the process grew.
	HeldBytes      int64 `json:"heldBytes"`
	ExplainedBytes int64 `json:"explainedBytes"`
	RSSBytes       int64 `json:"rssBytes"`
}

// RunDefinitions measures what many definitions cost a hub without members, and prints the result.
func RunDefinitions(ctx context.Context, o Options) error {
	var result DefinitionResult
	_, err := onFleet(ctx, o, 0, func(s *Stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (_ Result, err error) {
			result, err = s.definitions(ctx, manyDefinitions)
			return Result{Name: "definitions"}, err
		}}}
	})
	if err != nil {
		return err
	}
	if o.JSON != nil {
		err = json.NewEncoder(o.JSON).Encode(result)
	}
	return errors.Join(printDefinitions(o.Out, result), err)
}

func (s *Stand) definitions(ctx context.Context, n int) (DefinitionResult, error) {
	r := DefinitionResult{Definitions: n}
	before, err := s.weigh(ctx)
	if err != nil {
		return r, err
	}
	started := time.Now()
	err = Parallel(ctx, definitionWriters, n, func(ctx context.Context, i int) error {
		_, err := s.Top.Dynamic.Resource(definitionResource).Create(ctx, definitionOf(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return r, fmt.Errorf("creating definitions: %w", err)
	}
	if err := s.established(ctx, n); err != nil {
		return r, err
	}
	r.Seconds = time.Since(started).Seconds()
	after, err := s.weigh(ctx)
	if err != nil {
		return r, err
	}
	r.CPUSeconds = (after.cpu - before.cpu).Seconds()
	r.HeldBytes, r.RSSBytes = after.live-before.live, after.rss-before.rss
	for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/" + definitionGroup(0) + "/v1"} {
		if _, err := s.Top.Kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx); err != nil {
			return r, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	explained, err := s.weigh(ctx)
	r.ExplainedBytes = explained.live - before.live
	return r, err
}

// weight is what a hub at rest takes.
type weight struct {
	cpu       time.Duration
	live, rss int64
}

// weigh waits until the hub is at rest, and has given back what it needed before: it does so ten seconds later.
func (s *Stand) weigh(ctx context.Context) (weight, error) {
	const (
		glance = 2 * time.Second
		quiet  = 7
	)
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for last, restful := time.Duration(-1), 0; ; {
		u, err := s.Usage()
		if err != nil {
			return weight{}, err
		}
		if restful++; last < 0 || u.Cpu-last >= glance/10 {
			restful = 0
		}
		if restful == quiet {
			h, err := s.Heap(ctx)
			if err != nil {
				return weight{}, err
			}
			return weight{cpu: u.Cpu, live: h.Live, rss: u.Rss}, nil
		}
		last = u.Cpu
		select {
		case <-tick.C:
		case <-ctx.Done():
			return weight{}, fmt.Errorf("waiting for the hub to be at rest: %w", context.Cause(ctx))
		}
	}
}

// established waits until every definition made here is served.
func (s *Stand) established(ctx context.Context, n int) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		list, err := s.Top.Dynamic.Resource(definitionResource).List(ctx, metav1.ListOptions{LabelSelector: "bench=definitions"})
		if err != nil {
			return fmt.Errorf("listing definitions: %w", err)
		}
		served := 0
		for i := range list.Items {
			conditions, _, _ := unstructured.NestedSlice(list.Items[i].Object, "status", "conditions")
			for _, c := range conditions {
				if c, _ := c.(map[string]any); c["type"] == "Established" && c["status"] == "True" {
					served++
				}
			}
		}
		if served == n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for definitions, %d of %d are established: %w", served, n, context.Cause(ctx))
		}
	}
}

func definitionGroup(i int) string { return fmt.Sprintf("group%02d.bench.example.io", i/10) }

// definitionOf is a kind of its own, ten to a group.
func definitionOf(i int) *unstructured.Unstructured {
	fields := map[string]any{}
	for f := range definitionFields {
		fields[fmt.Sprintf("field%03d", f)] = map[string]any{
			"type": "string", "maxLength": int64(253),
			"description": fmt.Sprintf("Field %d of the kind has a description that is never read, of about a hundred characters, like others.", f),
		}
	}
	plural, kind := fmt.Sprintf("bench%04ds", i), fmt.Sprintf("Bench%04d", i)
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definitionResource.GroupVersion().String(), "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + definitionGroup(i), "labels": map[string]any{"bench": "definitions"}},
		"spec": map[string]any{
			"group": definitionGroup(i), "scope": "Namespaced",
			"names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
					"spec":   map[string]any{"type": "object", "properties": fields},
					"status": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
				}}},
			}},
		},
	}}
}

func printDefinitions(out io.Writer, r DefinitionResult) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "DEFINITIONS\tESTABLISHED\tCPU\tHEAP\tHEAP, DOCUMENTS READ\tPROCESS")
	fmt.Fprintf(w, "%d\t%.1f s\t%.1f s\t+%d MB\t+%d MB\t+%d MB\n", r.Definitions, r.Seconds, r.CPUSeconds, r.HeldBytes/1e6, r.ExplainedBytes/1e6, r.RSSBytes/1e6)
	return w.Flush()
}

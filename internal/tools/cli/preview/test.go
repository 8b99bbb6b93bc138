package preview

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/host/preview/offline"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// suite is a file of cases. Fields that are not here are errors.
type suite struct {
	// Snapshot is a file with the control plane before each case, relative to this one.
	Snapshot string `json:"snapshot,omitempty"`
	// Objects are further objects of the control plane before each case.
	Objects []map[string]any `json:"objects,omitempty"`
	// Cases are independent of each other.
	Cases []testCase `json:"cases"`
}

// testCase is a change, and what is expected after it.
type testCase struct {
	Name string `json:"name"`
	// Files and Apply are what is applied, Delete what is deleted. None of them: the control plane is checked as it is.
	Files  []string                       `json:"files,omitempty"`
	Apply  []map[string]any               `json:"apply,omitempty"`
	Delete []fleetv1alpha1.ObjectIdentity `json:"delete,omitempty"`
	Expect []expectation                  `json:"expect"`
}

// expectation is about one object. What is not set is not compared.
type expectation struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Placement has the replicas of each cluster; 0 for kinds without replicas. {} is no cluster.
	Placement *map[string]int32 `json:"placement,omitempty"`
	// Policy is NAMESPACE/NAME of the PropagationPolicy or NAME of the ClusterPropagationPolicy that the object belongs to; "" is none.
	Policy *string `json:"policy,omitempty"`
	// Refused is whether the control plane refuses the object.
	Refused *bool `json:"refused,omitempty"`
}

func newTestCommand(s cli.Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "test FILE|FOLDER...",
		Short: "Compare where objects are placed with what is expected, without a control plane",
		Long: `Runs the cases of YAML files: each has a control plane as a list of objects, a change, and which clusters and policy objects are expected
to have then. The loops of the control plane compute it. The exit code is 1 if a case fails, and 2 if a file cannot be read.`,
		Example: "  flagship test placement_test.yaml\n  flagship test policies/",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			failed, err := runSuites(cmd.Context(), s, args)
			switch {
			case err != nil:
				return failure{err}
			case failed > 0:
				return cli.Exit(1)
			}
			return nil
		},
	}
}

// runSuites runs the cases of files, and returns how many fail.
func runSuites(ctx context.Context, s cli.Streams, paths []string) (failed int, err error) {
	kinds, err := offline.ReadKinds(clock.RealClock{})
	if err != nil {
		return 0, err
	}
	cases := 0
	for _, path := range paths {
		files, err := filesOf(path, true)
		if err != nil {
			return failed, err
		}
		for _, file := range files {
			cases, failed, err = runSuite(ctx, s, kinds, file, cases, failed)
			if err != nil {
				return failed, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	if failed > 0 {
		s.Line(fmt.Sprintf("FAIL  %d of %d cases", failed, cases))
		return failed, nil
	}
	s.Line(fmt.Sprintf("ok    %d cases", cases))
	return 0, nil
}

func runSuite(ctx context.Context, s cli.Streams, kinds *offline.Kinds, file string, cases, failed int) (int, int, error) {
	content, err := read(s, file)
	if err != nil {
		return cases, failed, err
	}
	var all suite
	if err := yaml.UnmarshalStrict(content, &all); err != nil {
		return cases, failed, fmt.Errorf("reading the cases: %w", err)
	}
	if len(all.Cases) == 0 {
		return cases, failed, errors.New("it has no cases")
	}
	for i := range all.Cases {
		c := &all.Cases[i]
		if c.Name == "" || len(c.Expect) == 0 {
			return cases, failed, fmt.Errorf("cases[%d] needs a name, and something to expect", i)
		}
		wrong, err := all.run(ctx, s, kinds, filepath.Dir(file), c)
		if err != nil {
			return cases, failed, fmt.Errorf("case %q: %w", c.Name, err)
		}
		cases++
		if len(wrong) == 0 {
			s.Line("ok    " + file + ": " + c.Name)
			continue
		}
		failed++
		s.Line("FAIL  " + file + ": " + c.Name)
		for _, w := range wrong {
			s.Line("      " + w)
		}
	}
	return cases, failed, nil
}

// run runs one case, and returns what is not as expected.
func (a *suite) run(ctx context.Context, s cli.Streams, kinds *offline.Kinds, dir string, c *testCase) ([]string, error) {
	var objects, change []*unstructured.Unstructured
	if a.Snapshot != "" {
		found, err := readAll(s, []string{filepath.Join(dir, a.Snapshot)}, false)
		if err != nil {
			return nil, err
		}
		objects = found
	}
	for _, o := range a.Objects {
		objects = append(objects, &unstructured.Unstructured{Object: o})
	}
	for _, file := range c.Files {
		found, err := readAll(s, []string{filepath.Join(dir, file)}, false)
		if err != nil {
			return nil, err
		}
		change = append(change, found...)
	}
	for _, o := range c.Apply {
		change = append(change, &unstructured.Unstructured{Object: o})
	}
	for i, obj := range slices.Concat(objects, change) {
		if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
			return nil, fmt.Errorf("object %d needs apiVersion, kind and metadata.name", i)
		}
	}
	hub, err := offline.New(ctx, kinds, withStatus(objects, change), preview.Config{Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	question := &fleetv1alpha1.Preview{Spec: fleetv1alpha1.PreviewSpec{Delete: c.Delete}}
	if err := fill(&question.Spec, change, false); err != nil {
		return nil, err
	}
	if len(question.Spec.Apply)+len(question.Spec.Delete) > 0 {
		if err := compute(ctx, hub, question); err != nil {
			return nil, err
		}
	}
	var wrong []string
	for _, e := range c.Expect {
		found, err := e.compare(ctx, hub, question.Status.Refused)
		if err != nil {
			return nil, err
		}
		wrong = append(wrong, found...)
	}
	return wrong, nil
}

// compare returns what is not as expected.
func (e *expectation) compare(ctx context.Context, hub *offline.Control, refused []fleetv1alpha1.PreviewRefusal) ([]string, error) {
	name := e.Kind + " " + strings.TrimPrefix(e.Namespace+"/"+e.Name, "/")
	var wrong []string
	at := slices.IndexFunc(refused, func(r fleetv1alpha1.PreviewRefusal) bool {
		return r.Object.Kind == e.Kind && r.Object.Namespace == e.Namespace && r.Object.Name == e.Name
	})
	switch {
	case at >= 0 && (e.Refused == nil || !*e.Refused):
		return []string{name + " is refused: " + refused[at].Message}, nil
	case at < 0 && e.Refused != nil && *e.Refused:
		wrong = append(wrong, name+" is not refused")
	}
	if e.Placement == nil && e.Policy == nil {
		return wrong, nil
	}
	placed, err := hub.Placed(ctx, e.Kind, e.Namespace, e.Name)
	if err != nil {
		return nil, err
	}
	if e.Placement != nil && !maps.Equal(*e.Placement, placed.Clusters) {
		line := fmt.Sprintf("%s is placed at %s, want %s", name, list(placed.Clusters), list(*e.Placement))
		if placed.Message != "" {
			line += ": " + placed.Message
		}
		wrong = append(wrong, line)
	}
	if e.Policy != nil && *e.Policy != placed.Policy {
		wrong = append(wrong, fmt.Sprintf("%s belongs to policy %q, want %q", name, placed.Policy, *e.Policy))
	}
	return wrong, nil
}

func list(clusters map[string]int32) string {
	if len(clusters) == 0 {
		return "no cluster"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		parts = append(parts, fmt.Sprintf("%s:%d", name, clusters[name]))
	}
	return strings.Join(parts, " ")
}

// withStatus has each Cluster without a status be ready, and serve every kind of the case.
func withStatus(objects, change []*unstructured.Unstructured) []*unstructured.Unstructured {
	served := map[string][]any{}
	for _, obj := range slices.Concat(objects, change) {
		kind := obj.GroupVersionKind()
		version := kind.GroupVersion().String()
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		entry := map[string]any{"name": resource.Resource, "kind": kind.Kind}
		if !slices.ContainsFunc(served[version], func(e any) bool { return e.(map[string]any)["kind"] == kind.Kind }) {
			served[version] = append(served[version], entry)
		}
	}
	var enablements []any
	for _, version := range slices.Sorted(maps.Keys(served)) {
		enablements = append(enablements, map[string]any{"groupVersion": version, "resources": served[version]})
	}
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, obj := range objects {
		if obj.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: clusterv1alpha1.GroupName, Kind: clusterv1alpha1.KindCluster}) && obj.Object["status"] == nil {
			obj = obj.DeepCopy()
			obj.Object["status"] = map[string]any{
				"conditions":     []any{map[string]any{"type": clusterv1alpha1.ClusterConditionReady, "status": "True"}},
				"apiEnablements": enablements,
			}
		}
		out = append(out, obj)
	}
	return out
}

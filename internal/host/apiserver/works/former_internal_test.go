package works

import (
	"context"
	"encoding/json"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/google/go-cmp/cmp"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const (
	fullBinding = `{"metadata":{"name":"web","generation":3},"spec":{
		"resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web","uid":"u","resourceVersion":"7"},
		"propagateDeps":true,"replicas":3,"schedulerName":"default","conflictResolution":"Abort","preserveResourcesOnDeletion":true,
		"replicaRequirements":{"nodeClaim":{"nodeSelector":{"a":"b"}},"resourceRequest":{"cpu":"10m"},"namespace":"shop","priorityClassName":"high"},
		"components":[{"name":"main","replicas":3}],"clusters":[{"name":"m1","replicas":2,"components":[{"name":"main","replicas":2}]},{"name":"m2","replicas":1}],
		"gracefulEvictionTasks":[{"fromCluster":"m3","reason":"Taint","producer":"p"}],"requiredBy":[{"name":"other"}],
		"placement":{"clusterAffinity":{"clusterNames":["m1","m2"]}},"suspension":{"scheduling":true},"schedulePriority":{"priority":5}},
		"status":{"schedulerObservedGeneration":3,"schedulerObservingAffinityName":"a","conditions":[{"type":"Scheduled","status":"True"}],
		"aggregatedStatus":[{"clusterName":"m1","status":{"replicas":2},"applied":true,"health":"Healthy"},{"clusterName":"m2","appliedMessage":"no","health":"Unknown"}]}}`
	formerBinding = `{"metadata":{"name":"web"},"spec":{
		"resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web","resourceVersion":"7","replicas":3,"resourcePerReplicas":{"cpu":"10m"}},
		"clusters":[{"name":"m1","replicas":2},{"name":"m2","replicas":1}]},
		"status":{"conditions":[{"type":"Scheduled","status":"True"}],"aggregatedStatus":[{"clusterName":"m1","status":{"replicas":2},"applied":true},{"clusterName":"m2","appliedMessage":"no"}]}}`
)

// inV1alpha1 is the context of a request in that version.
func inV1alpha1(ctx context.Context) context.Context {
	return request.WithRequestInfo(ctx, &request.RequestInfo{APIGroup: Group, APIVersion: "v1alpha1"})
}

func converted[Out any](t *testing.T, in any) *Out {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	out := new(Out)
	if err := scheme.Convert(in, out, nil); err != nil {
		t.Fatal(err)
	}
	return out
}

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	if err := json.Unmarshal([]byte(text), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestBindingsInV1alpha1: an update in v1alpha1 changes what that version has, and loses nothing else.
func TestBindingsInV1alpha1(t *testing.T) {
	stored := read[workv1alpha2.ResourceBinding](t, fullBinding)
	former := converted[workv1alpha1.ResourceBinding](t, stored)
	if diff := cmp.Diff(read[workv1alpha1.ResourceBinding](t, formerBinding).Spec, former.Spec) +
		cmp.Diff(read[workv1alpha1.ResourceBinding](t, formerBinding).Status, former.Status); diff != "" {
		t.Error(diff)
	}
	former.Spec.Clusters = []workv1alpha1.TargetCluster{{Name: "m1", Replicas: 1}, {Name: "m4", Replicas: 2}}
	former.Spec.Resource.ReplicaResourceRequirements = nil
	former.Status.AggregatedStatus[1].Applied = true
	written := converted[workv1alpha2.ResourceBinding](t, former)
	keepOmitted(inV1alpha1(t.Context()), written, stored)

	want := stored.DeepCopy()
	want.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "m1", Replicas: 1, Components: stored.Spec.Clusters[0].Components}, {Name: "m4", Replicas: 2}}
	want.Spec.ReplicaRequirements.ResourceRequest = nil
	want.Status.AggregatedStatus[1].Applied = true
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("-want +got: %s", diff)
	}

	other := converted[workv1alpha2.ResourceBinding](t, former)
	other.Spec.Resource.Name = "other"
	keepOmitted(inV1alpha1(t.Context()), other, stored)
	if other.Spec.Resource.UID != "" {
		t.Error("another template has the uid of the first")
	}
	untouched := &workv1alpha2.ResourceBinding{}
	keepOmitted(t.Context(), untouched, stored)
	if untouched.Spec.Placement != nil {
		t.Error("a write in v1alpha2 keeps what it leaves out")
	}
}

// FuzzBindingVersions: what was read in v1alpha1 and written again is what is stored, and what was written in v1alpha1 is read again.
func FuzzBindingVersions(f *testing.F) {
	f.Add(fullBinding)
	f.Add(formerBinding)
	f.Add(`{"spec":{"replicaRequirements":{},"clusters":[{"name":"a"},{"name":"a","components":[{"name":"x"}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var stored workv1alpha2.ResourceBinding
		if json.Unmarshal([]byte(text), &stored) == nil && distinct(&stored) {
			written := converted[workv1alpha2.ResourceBinding](t, converted[workv1alpha1.ResourceBinding](t, stored.DeepCopy()))
			keepOmitted(inV1alpha1(t.Context()), written, &stored)
			if !apiequality.Semantic.DeepEqual(written, &stored) {
				t.Errorf("-stored +written: %s", cmp.Diff(&stored, written))
			}
		}
		var former workv1alpha1.ResourceBinding
		if json.Unmarshal([]byte(text), &former) == nil {
			former.TypeMeta.Kind, former.TypeMeta.APIVersion = "", ""
			if again := converted[workv1alpha1.ResourceBinding](t, converted[workv1alpha2.ResourceBinding](t, former.DeepCopy())); !apiequality.Semantic.DeepEqual(again, &former) {
				t.Errorf("-written +read: %s", cmp.Diff(&former, again))
			}
		}
	})
}

// distinct is true if each cluster is named once: only then is it known which of them a written one is.
func distinct(binding *workv1alpha2.ResourceBinding) bool {
	binding.Kind, binding.APIVersion = "", ""
	names := map[string]bool{}
	for _, cluster := range binding.Spec.Clusters {
		names[cluster.Name] = true
	}
	reports := map[string]bool{}
	for _, item := range binding.Status.AggregatedStatus {
		reports[item.ClusterName] = true
	}
	return len(names) == len(binding.Spec.Clusters) && len(reports) == len(binding.Status.AggregatedStatus)
}

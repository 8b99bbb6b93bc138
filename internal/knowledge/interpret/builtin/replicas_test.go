package builtin_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

const plainTemplate = "template: {spec: {containers: [{name: a, image: nginx}]}}"

func TestReplicas(t *testing.T) {
	tests := map[string]struct {
		object   string
		known    bool
		replicas int32
	}{
		"deployment":                       {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3, " + plainTemplate + "}}", true, 3},
		"deployment without a number is 1": {"{apiVersion: apps/v1, kind: Deployment, spec: {" + plainTemplate + "}}", true, 1},
		"deployment scaled to nothing":     {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, " + plainTemplate + "}}", true, 0},
		"replica set":                      {"{apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 4, " + plainTemplate + "}}", true, 4},
		"stateful set":                     {"{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 5, " + plainTemplate + "}}", true, 5},
		"job with fewer completions":       {"{apiVersion: batch/v1, kind: Job, spec: {parallelism: 5, completions: 2, " + plainTemplate + "}}", true, 2},
		"job with fewer pods at a time":    {"{apiVersion: batch/v1, kind: Job, spec: {parallelism: 2, completions: 9, " + plainTemplate + "}}", true, 2},
		"job without completions":          {"{apiVersion: batch/v1, kind: Job, spec: {parallelism: 6, " + plainTemplate + "}}", true, 6},
		"job without anything":             {"{apiVersion: batch/v1, kind: Job, spec: {" + plainTemplate + "}}", true, 1},
		"pod":                              {"{apiVersion: v1, kind: Pod, spec: {containers: [{name: a}]}}", true, 1},
		"daemon set has none":              {"{apiVersion: apps/v1, kind: DaemonSet, spec: {" + plainTemplate + "}}", false, 0},
		"unknown kind has none":            {"{apiVersion: example.com/v1, kind: Thing, spec: {replicas: 3}}", false, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			got, err := i.Replicas(context.Background(), object(t, tc.object))
			if err != nil {
				t.Fatal(err)
			}
			if got.Known != tc.known || got.Replicas != tc.replicas || got.Requirements != nil {
				t.Errorf("got %+v, want known %v, %d replicas, no requirements", got, tc.known, tc.replicas)
			}
		})
	}
}

func TestInvalidReplicasFail(t *testing.T) {
	tests := map[string]string{
		"text":     "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: many}}",
		"negative": "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: -1}}",
		"too many": "{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3000000000}}",
		"bad spec": "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: 7}}}}",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			if got, err := i.Replicas(context.Background(), object(t, text)); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		result := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			result[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return result
	}
	tests := map[string]struct {
		spec string
		want *workv1alpha2.ReplicaRequirements
	}{
		"containers add up": {
			"{containers: [{name: a, resources: {requests: {cpu: 100m}}}, {name: b, resources: {requests: {cpu: 200m, memory: 1Gi}}}]}",
			&workv1alpha2.ReplicaRequirements{ResourceRequest: list("cpu", "300m", "memory", "1Gi")},
		},
		"init containers run one after the other": {
			"{containers: [{name: a, resources: {requests: {cpu: 100m}}}], initContainers: [{name: i, resources: {requests: {cpu: 1}}}, {name: j, resources: {requests: {cpu: 500m}}}]}",
			&workv1alpha2.ReplicaRequirements{ResourceRequest: list("cpu", "1")},
		},
		"sidecars run beside the containers": {
			"{containers: [{name: a, resources: {requests: {cpu: 100m}}}], initContainers: [{name: i, restartPolicy: Always, resources: {requests: {cpu: 1}}}]}",
			&workv1alpha2.ReplicaRequirements{ResourceRequest: list("cpu", "1100m")},
		},
		"limits stand in for missing requests": {
			"{containers: [{name: a, resources: {limits: {cpu: 2, nvidia.com/gpu: 1}, requests: {cpu: 1}}}]}",
			&workv1alpha2.ReplicaRequirements{ResourceRequest: list("cpu", "1", "nvidia.com/gpu", "1")},
		},
		"overhead comes on top": {
			"{overhead: {cpu: 50m}, containers: [{name: a, resources: {requests: {cpu: 100m}}}]}",
			&workv1alpha2.ReplicaRequirements{ResourceRequest: list("cpu", "150m")},
		},
		"a number out of range is as high as can be counted": {
			"{containers: [{name: a, resources: {requests: {cpu: '1e2147483647'}}}, {name: b, resources: {limits: {memory: '2e99999999'}}}]}",
			&workv1alpha2.ReplicaRequirements{ResourceRequest: list("cpu", "9223372036854775807", "memory", "9223372036854775807")},
		},
		"nodes and priority": {
			"{priorityClassName: high, nodeSelector: {disk: ssd}, tolerations: [{key: gpu, operator: Exists}], containers: [{name: a}], " +
				"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: z, operator: Exists}]}]}}}}",
			&workv1alpha2.ReplicaRequirements{
				PriorityClassName: "high",
				NodeClaim: &workv1alpha2.NodeClaim{
					NodeSelector: map[string]string{"disk": "ssd"},
					Tolerations:  []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
					HardNodeAffinity: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
						MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "z", Operator: corev1.NodeSelectorOpExists}},
					}}},
				},
			},
		},
		"preferences are no requirements": {
			"{containers: [{name: a}], affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}}",
			nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			obj := object(t, "{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: "+tc.spec+"}}}")
			before := obj.DeepCopy()
			got, err := i.Replicas(context.Background(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(got.Requirements, tc.want) {
				t.Errorf("got %+v, want %+v", got.Requirements, tc.want)
			}
			if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
				t.Errorf("the object changed:\n%s", diff)
			}
		})
	}
}

func TestRevise(t *testing.T) {
	tests := map[string]struct {
		object string
		path   []string
	}{
		"deployment":   {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}", []string{"spec", "replicas"}},
		"replica set":  {"{apiVersion: apps/v1, kind: ReplicaSet, spec: {}}", []string{"spec", "replicas"}},
		"stateful set": {"{apiVersion: apps/v1, kind: StatefulSet}", []string{"spec", "replicas"}},
		"job":          {"{apiVersion: batch/v1, kind: Job, spec: {parallelism: 1}}", []string{"spec", "parallelism"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			obj := object(t, tc.object)
			before := obj.DeepCopy()
			got, err := i.Revise(context.Background(), obj, 7)
			if err != nil {
				t.Fatal(err)
			}
			if n, _, _ := unstructured.NestedInt64(got.Object, tc.path...); n != 7 {
				t.Errorf("got %v, want 7 at %v", got.Object, tc.path)
			}
			if diff := cmp.Diff(before.Object, obj.Object); diff != "" {
				t.Errorf("the argument changed:\n%s", diff)
			}
		})
	}
	t.Run("a kind without replicas stays the same object", func(t *testing.T) {
		i := newInterpreter()
		obj := object(t, "{apiVersion: v1, kind: ConfigMap}")
		if got, err := i.Revise(context.Background(), obj, 7); err != nil || got != obj {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
)

func TestObject(t *testing.T) {
	own := ownership.ControlPlane{ID: "11111111-2222"}
	managed := func(id string) *unstructured.Unstructured {
		obj := template()
		obj.SetLabels(map[string]string{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
		obj.SetAnnotations(map[string]string{
			workv1alpha1.ControlPlaneAnnotation: id, workv1alpha1.WorkNamespaceAnnotation: "karmada-es-m1", workv1alpha1.WorkNameAnnotation: "web-1",
		})
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{
			{Manager: own.Manager(), Operation: "Apply", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:paused":{}}}`)},
			{Manager: "kubelet", Operation: "Update", Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:replicas":{}}}`)},
			{Manager: "old", Operation: "Update"},
		})
		return obj
	}
	free := template()
	free.SetManagedFields(nil)
	for name, tc := range map[string]struct {
		obj  *unstructured.Unstructured
		want []string
	}{
		"without a manager": {free, []string{"Member Done m1 no control plane manages it"}},
		"of this control plane": {managed(own.ID), []string{
			"Member Done m1 belongs to this control plane", "Work Done m1 the object is written from this Work by apply",
			"Member Done m1 this control plane owns 2 fields by flagship-11111111 [.spec.paused >] [.spec.replicas >]",
			"Member Done m1 owns 1 fields, written through status by kubelet [.status.replicas >]", "Member Done m1 its fields cannot be read by old",
		}},
		"of another control plane": {managed("another"), []string{
			"Member Done m1 belongs to the control plane another",
			"Member Done m1 this control plane owns 2 fields by flagship-11111111 [.spec.paused >] [.spec.replicas >]",
			"Member Done m1 owns 1 fields, written through status by kubelet [.status.replicas >]", "Member Done m1 its fields cannot be read by old",
		}},
	} {
		got := lines(explain.Visible(explain.Object(tc.obj, "m1", own), everything))
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A Deployment has more fields than an answer has.
func TestObjectWithManyFields(t *testing.T) {
	var fields []string
	for i := range 60 {
		fields = append(fields, fmt.Sprintf(`"f:%02d":{}`, i))
	}
	obj := template()
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: "Update", FieldsV1: metav1.NewFieldsV1(`{"f:data":{` + strings.Join(fields, ",") + `}}`)}})
	steps := explain.Object(obj, "m1", ownership.ControlPlane{ID: "11111111-2222"})
	if last := steps[len(steps)-1]; last.Message != "owns 60 fields; the first 50 are" || len(last.Fields) != 50 || last.Fields[49].Path != ".data.49" {
		t.Errorf("the manager has %d fields: %+v", len(last.Fields), last)
	}
}

func TestPods(t *testing.T) {
	pod := func(name string, state corev1.ContainerState) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: state}}}}
	}
	pull := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image web:1"}}
	starting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	full := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available"},
	}}}
	got := lines(explain.Visible(explain.Pods("m1", []corev1.Pod{
		pod("a", pull), pod("b", pull), pod("c", starting), pod("d", corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), pod("e", crashed), full,
	}), everything))
	want := []string{
		"Member Failed m1 container web: Back-off pulling image web:1 (and 1 more pods) by kubelet",
		"Member Failed m1 container web ended with exit code 137 by kubelet", "Member Failed m1 0/2 nodes are available by kube-scheduler",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestPodSelector(t *testing.T) {
	for want, selector := range map[string]map[string]any{
		"app=web": {"matchLabels": map[string]any{"app": "web"}}, "": {"app": "web"},
	} {
		obj := template()
		obj.Object["spec"] = map[string]any{"selector": selector}
		if got := explain.PodSelector(obj); got != want {
			t.Errorf("%v: %q, want %q", selector, got, want)
		}
	}
}

package pipeline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestMembersThatServeClaimsInABetaOnly: class, claim and template become objects of that beta, the member's own scheduler
// allocates the claim, and the hub shows it in the terms of the claim. It takes a minute beside other tests, for a fleet of its own with
// schedulers.
func TestMembersThatServeClaimsInABetaOnly(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	class := &resourcev1alpha2.ResourceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: resourcev1alpha2.KindResourceClass},
		ObjectMeta: metav1.ObjectMeta{Name: "beta.example.com"}, DriverName: exampleClass,
	}
	fleettest.Create(t, hub.Cluster, class, fleettest.ClusterPolicy("beta-class", fleettest.Everywhere(), class))
	for version, served := range map[string]string{
		"v1beta2": "resource.k8s.io/v1beta2=true",
		// A scheduler of today requires rules about taints, which v1beta1 has not got.
		"v1beta1": "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2/devicetaintrules=true",
	} {
		t.Run(version, func(t *testing.T) {
			member := fleettest.StartMember(t, version, "--nodes=1", "--devices=4", "--runtime-config=resource.k8s.io/v1=false,"+served)
			hub.Join(t, version, member.Kubeconfig)
			claimThroughABeta(t, hub.Cluster, member.Cluster, version)
		})
	}
}

func claimThroughABeta(t *testing.T, hub, member *fleettest.Cluster, version string) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "in-" + version}}
	d := consuming(ns.Name, "train", 1, "gpu", "")
	claim, template := oldClaim(ns.Name, "gpu", "beta.example.com"), oldClaimTemplate(ns.Name, "each", "beta.example.com")
	template.SetGroupVersionKind(resourcev1alpha2.GroupVersion.WithKind(resourcev1alpha2.KindResourceClaimTemplate))
	fleettest.Create(t, hub, ns, claim, template.DeepCopy(), d, withDependencies(fleettest.Policy(ns.Name, "train", fleettest.To(version), d)),
		fleettest.Policy(ns.Name, "each", fleettest.To(version), template))

	fleettest.ExpectEventually(t, hub, d, ready(1))
	// The one request of a claim has a level for alternatives from v1beta2 on.
	request := []string{"exactly", "deviceClassName"}
	if version == "v1beta1" {
		request = request[1:]
	}
	requestsOf := func(path ...string) func(*unstructured.Unstructured) error {
		return func(u *unstructured.Unstructured) error {
			requests, _, _ := unstructured.NestedSlice(u.Object, append(path, "devices", "requests")...)
			if len(requests) != 1 || u.GetAnnotations()[resourcev1alpha2.TranslatedFromAnnotation] != resourcev1alpha2.GroupVersion.String() {
				return fmt.Errorf("it has %v and requests %v", u.GetAnnotations(), requests)
			}
			class, _, _ := unstructured.NestedString(requests[0].(map[string]any), request...)
			return equal("beta.example.com", class)
		}
	}
	copied := fleettest.ExpectEventually(t, member, inBeta(version, "ResourceClaim", ns.Name, "gpu"), requestsOf("spec"))
	if results, _, _ := unstructured.NestedSlice(copied.Object, "status", "allocation", "devices", "results"); len(results) != 1 {
		t.Errorf("%d devices were allocated to it, want 1", len(results))
	}
	fleettest.ExpectEventually(t, member, inBeta(version, "ResourceClaimTemplate", ns.Name, "each"), requestsOf("spec", "spec"))
	fleettest.ExpectEventually(t, member, inBeta(version, "DeviceClass", "", "beta.example.com"), fleettest.Exists)

	onHub := fleettest.ExpectEventually(t, hub, claim, held(exampleClass, 1, true))
	var device struct{ Request, Pool, Device string }
	if err := json.Unmarshal([]byte(onHub.Status.Allocation.ResourceHandles[0].Data), &device); err != nil ||
		device.Request != "claim" || device.Pool != version+"-node-1" || !strings.HasPrefix(device.Device, "gpu-") || onHub.Status.Allocation.AvailableOnNodes == nil {
		t.Errorf("the claim says %+v (%v)", onHub.Status.Allocation, err)
	}
	fleettest.ExpectEventually(t, hub, binding(ns.Name, "ResourceClaim", "gpu"), func(b *workv1alpha2.ResourceBinding) error {
		var status resourcev1alpha2.ResourceClaimStatus
		if len(b.Status.AggregatedStatus) != 1 || b.Status.AggregatedStatus[0].Status == nil {
			return errors.New("nothing is reported")
		}
		if err := json.Unmarshal(b.Status.AggregatedStatus[0].Status.Raw, &status); err != nil || status.DriverName != exampleClass {
			return fmt.Errorf("it reports %s (%w)", b.Status.AggregatedStatus[0].Status.Raw, err)
		}
		return conditionIs(b.Status.Conditions, workv1alpha2.FullyApplied, metav1.ConditionTrue, "")
	})

	// What a member's controllers do when a claim's pods are gone is done here: those of today would do it in v1 only.
	fleettest.Update(t, hub, d, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })
	fleettest.ExpectListed(t, member, &corev1.PodList{}, ns.Name, func(pods *corev1.PodList) error {
		if len(pods.Items) > 0 {
			return fmt.Errorf("there are %d pods", len(pods.Items))
		}
		return nil
	})
	fleettest.UpdateStatus(t, member, copied, func(u *unstructured.Unstructured) { delete(u.Object, "status") })
	fleettest.Update(t, member, copied, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	fleettest.ExpectEventually(t, hub, claim, held("", 0, false))
	fleettest.Delete(t, hub, d)
	fleettest.ExpectGone(t, member, copied)
}

func inBeta(version, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(resourcev1alpha2.GroupVersion.WithKind(kind))
	u.SetAPIVersion(resourcev1alpha2.GroupName + "/" + version)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

package skew_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var amount = resource.MustParse("3")

// services: each member exports a Service, and the other one gets the endpoints.
func (f *fleet) services(t *testing.T) {
	for name, exporting := range map[string]*fleettest.Cluster{"from-older": f.older, "from-newer": f.newer} {
		d, service := fleettest.Deployment(f.ns, name, 2), fleettest.Service(f.ns, name)
		f.create(t, d, service, fleettest.Policy(f.ns, name, fleettest.To(exporting.Name), d, service))
		fleettest.ExpectEventually(t, exporting, d, fleettest.Available)
		fleettest.ExpectEventually(t, exporting, service, fleettest.Exists)
		e := &multiclusterv1beta1.ServiceExport{ObjectMeta: service.ObjectMeta}
		e.ResourceVersion, e.UID, e.ManagedFields = "", "", nil
		fleettest.Eventually(t, "the export is accepted", func() bool { return exporting.Create(t.Context(), e) == nil })
		var want []string
		fleettest.ExpectListed(t, exporting, &discoveryv1.EndpointSliceList{}, f.ns, func(list *discoveryv1.EndpointSliceList) error {
			if want = readyOf(list, discoveryv1.LabelServiceName, name); len(want) != 2 {
				return fmt.Errorf("its own endpoints are %v", want)
			}
			return nil
		})
		for _, importing := range []*fleettest.Cluster{f.older, f.newer} {
			fleettest.ExpectEventually(t, importing, &multiclusterv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name}},
				func(i *multiclusterv1beta1.ServiceImport) error {
					if len(i.Status.Clusters) != 1 || i.Status.Clusters[0].Cluster != exporting.Name || len(i.Spec.IPs) == 0 {
						return fmt.Errorf("exported by %+v, addresses %v", i.Status.Clusters, i.Spec.IPs)
					}
					return fleettest.ConditionTrue(i.Status.Conditions, multiclusterv1beta1.ImportReady)
				})
			fleettest.ExpectListed(t, importing, &discoveryv1.EndpointSliceList{}, f.ns, func(list *discoveryv1.EndpointSliceList) error {
				if got := readyOf(list, multiclusterv1beta1.ServiceNameLabel, name); !slices.Equal(got, want) {
					return fmt.Errorf("%s has %v, want %v", importing.Name, got, want)
				}
				return nil
			})
		}
	}
}

// readyOf are the addresses of the ready endpoints in the slices of one service, by a label.
func readyOf(list *discoveryv1.EndpointSliceList, label, service string) []string {
	var all []string
	for _, s := range list.Items {
		if s.Labels[label] != service {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				all = append(all, e.Addresses...)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// token: the member gives a token that is much shorter than requested, and another one when it is due.
func (f *fleet) token(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: older}}
	fleettest.ExpectEventually(t, f.hub.Cluster, secret, fleettest.HasRenewalToken)
	var before []byte
	fleettest.Update(t, f.hub.Cluster, secret, func(s *corev1.Secret) {
		before = s.Data[clusterv1alpha1.SecretTokenKey]
		delete(s.Annotations, clusterv1alpha1.TokenLifetimeAnnotation) // what makes a short token due
	})
	fleettest.ExpectEventually(t, f.hub.Cluster, secret, func(s *corev1.Secret) error {
		if bytes.Equal(s.Data[clusterv1alpha1.SecretTokenKey], before) {
			return errors.New("it is the token of before")
		}
		return nil
	})
	f.newObject(t, "after-renewal")
}

// newObject creates a ConfigMap, and waits until it is everywhere and nothing more is to be written about it.
func (f *fleet) newObject(t *testing.T, name string) {
	t.Helper()
	c := fleettest.ConfigMap(f.ns, name, map[string]string{"a": "1"})
	f.create(t, c, fleettest.Policy(f.ns, name, fleettest.To(older), c))
	fleettest.ExpectEventually(t, f.older, c, fleettest.Exists)
	fleettest.ExpectEventually(t, f.hub.Cluster, work("ConfigMap", f.ns, name), applied)
}

// encryption: a Secret gets there, and the rotation of the key that it is stored with on the control plane writes nothing there.
func (f *fleet) encryption(t *testing.T) {
	secret := fleettest.Secret(f.ns, "password", map[string]string{"password": "before"})
	f.create(t, secret, fleettest.Policy(f.ns, "password", fleettest.To(older), secret))
	holds := func(want string) func(*corev1.Secret) error {
		return func(s *corev1.Secret) error {
			if is := string(s.Data["password"]); is != want {
				return fmt.Errorf("it holds %q, want %q", is, want)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, f.older, secret, holds("before"))
	f.rest(t)
	before := f.audit.position(t)
	if r := fleettest.Flagship(t, "encryption", "rotate", "--data-dir", f.hub.Dir); r.Code != 0 || !strings.Contains(r.Stdout, "works.work.karmada.io") {
		t.Fatalf("rotating ended with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	f.newObject(t, "after-rotation")
	f.rest(t)
	f.expectOneWrite(t, before, "after-rotation")
	fleettest.Update(t, f.hub.Cluster, secret, func(s *corev1.Secret) { s.Data["password"] = []byte("after") })
	fleettest.ExpectEventually(t, f.older, secret, holds("after"))
}

// oldClaims: a class and a claim of v1alpha2 get there, in the version that the member serves, and what its driver writes comes back.
func (f *fleet) oldClaims(t *testing.T) {
	class := &resourcev1alpha2.ResourceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: resourcev1alpha2.KindResourceClass},
		ObjectMeta: metav1.ObjectMeta{Name: driver}, DriverName: driver,
	}
	claim := &resourcev1alpha2.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourcev1alpha2.GroupVersion.String(), Kind: resourcev1alpha2.KindResourceClaim},
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "gpu"}, Spec: resourcev1alpha2.ResourceClaimSpec{ResourceClassName: driver},
	}
	policy := fleettest.Policy(f.ns, "gpu", fleettest.To(older), claim)
	f.create(t, class, fleettest.ClusterPolicy("gpu", fleettest.To(older), class))
	if f.claims != resourcev1alpha2.GroupVersion.Version {
		f.publishDevice(t)
	}
	f.create(t, claim, policy)
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(claimsIn(f.claims))
	there.SetNamespace(f.ns)
	there.SetName("gpu")
	found := fleettest.ExpectEventually(t, f.older, there, fleettest.Exists)
	allocation := map[string]any{"devices": map[string]any{"results": []any{
		map[string]any{"request": "claim", "driver": driver, "pool": nodeName, "device": "gpu-0"},
	}}}
	status := map[string]any{"allocation": allocation}
	if f.claims == resourcev1alpha2.GroupVersion.Version {
		status = map[string]any{"driverName": driver, "allocation": map[string]any{"resourceHandles": []any{map[string]any{"driverName": driver, "data": "gpu-0"}}}}
	}
	fleettest.UpdateStatus(t, f.older, found, func(u *unstructured.Unstructured) { u.Object["status"] = runtime.DeepCopyJSON(status) })
	fleettest.ExpectEventually(t, f.hub.Cluster, claim, func(c *resourcev1alpha2.ResourceClaim) error {
		if c.Status.DriverName != driver || c.Status.Allocation == nil || len(c.Status.Allocation.ResourceHandles) != 1 {
			return fmt.Errorf("its status is %+v", c.Status)
		}
		return nil
	})

	// A Deployment whose pods name the claim, in the way of that version.
	d := fleettest.Deployment(f.ns, "train", 1)
	d.Spec.Template.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu")}}
	d.Spec.Template.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	f.create(t, d, fleettest.Policy(f.ns, "train", fleettest.To(older), d))
	fleettest.ExpectEventually(t, f.hub.Cluster, d, ready(1))
	var pods unstructured.UnstructuredList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := f.older.List(t.Context(), &pods, client.InNamespace(f.ns), client.MatchingLabels{"app": "train"}); err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d pods: %v", len(pods.Items), err)
	}
	claims, _, _ := unstructured.NestedSlice(pods.Items[0].Object, "spec", "resourceClaims")
	path := []string{"resourceClaimName"}
	if f.claims == resourcev1alpha2.GroupVersion.Version {
		path = []string{"source", "resourceClaimName"}
	}
	if name, _, _ := unstructured.NestedString(claims[0].(map[string]any), path...); name != "gpu" {
		t.Errorf("the claims of the pod are %v", claims)
	}
}

// driver is the driver of devices, and its class.
const driver = "gpu.example.com"

// publishDevice makes a device of the driver, so that the claim has a cluster where it can be.
func (f *fleet) publishDevice(t *testing.T) {
	t.Helper()
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: driver, NodeName: new(nodeName), Pool: resourcev1.ResourcePool{Name: nodeName, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
		},
	}
	if err := f.older.Create(t.Context(), slice); err != nil {
		t.Fatal(err)
	}
}

// rest waits until every Work of the member is applied, and none is on its way.
func (f *fleet) rest(t *testing.T) {
	t.Helper()
	fleettest.ExpectListed(t, f.hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace(older), func(list *workv1alpha1.WorkList) error {
		if len(list.Items) < 10 {
			return fmt.Errorf("there are %d Works", len(list.Items))
		}
		for i := range list.Items {
			w := &list.Items[i]
			if w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching { // a record of what the member has
				continue
			}
			if err := applied(w); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
		}
		return nil
	})
}

// expectOneWrite fails unless the control plane has written one object in the member, once.
func (f *fleet) expectOneWrite(t *testing.T, since int, name string) {
	t.Helper()
	if sent := writes(f.audit.since(t, since)); len(sent) != 1 || !strings.Contains(sent[0], "/configmaps/"+name) {
		t.Errorf("the member was sent these, want one for the ConfigMap %s:\n%s", name, strings.Join(sent, "\n"))
	}
}

// nothingIsWrittenAtRest: a field that the member drops, or does not serve, is not sent again and again.
func (f *fleet) nothingIsWrittenAtRest(t *testing.T) {
	f.rest(t)
	before := f.audit.position(t)
	if f.unknown != nil {
		// While a field is left out, the schema of the member is read every 15 seconds: twice is long enough for anything that is repeated.
		fleettest.Eventually(t, "the control plane has read the schema of the member twice more", func() bool { return schemas(f.audit.since(t, before)) >= 2 })
	}
	f.newObject(t, "at-rest")
	f.rest(t)
	f.expectOneWrite(t, before, "at-rest")
}

// restart: a control plane that starts again compares everything, and finds nothing to write.
func (f *fleet) restart(t *testing.T) {
	before := f.audit.position(t)
	f.hub.Stop(t)
	f.hub.Start(t)
	f.newObject(t, "after-restart")
	f.rest(t)
	f.expectOneWrite(t, before, "after-restart")
	web := fleettest.Deployment(f.ns, "web", 0)
	fleettest.Update(t, f.hub.Cluster, &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "web"}}, func(o *policyv1alpha1.OverridePolicy) {
		o.Spec.OverrideRules[0].Overriders.ImageOverrider[0].Value = "mirror.example.com"
	})
	fleettest.ExpectEventually(t, f.older, web, image("mirror.example.com/nginx:1.2"))
	fleettest.ExpectEventually(t, f.hub.Cluster, web, ready(3))
}

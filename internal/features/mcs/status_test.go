package mcs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

func exposed(kind networkingv1alpha1.ExposureType) *networkingv1alpha1.MultiClusterService {
	return &networkingv1alpha1.MultiClusterService{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", Generation: 4,
			Labels: map[string]string{networkingv1alpha1.MultiClusterServicePermanentIDLabel: "id"},
		},
		Spec: networkingv1alpha1.MultiClusterServiceSpec{Types: []networkingv1alpha1.ExposureType{kind}},
	}
}

func webService(kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid", ResourceVersion: "5"},
		Spec:       corev1.ServiceSpec{Type: kind, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

func applied(cluster, status string) workv1alpha2.AggregatedStatusItem {
	item := workv1alpha2.AggregatedStatusItem{ClusterName: cluster, Applied: true}
	if status != "" {
		item.Status = &runtime.RawExtension{Raw: []byte(status)}
	}
	return item
}

func bindingWith(items ...workv1alpha2.AggregatedStatusItem) *workv1alpha2.ResourceBinding {
	return &workv1alpha2.ResourceBinding{Status: workv1alpha2.ResourceBindingStatus{AggregatedStatus: items}}
}

// record and arrival are the Works of one slice in its provider and in a consumer.
func record(provider string) *workv1alpha1.Work {
	slice := types.NamespacedName{Namespace: "shop", Name: "web-x"}
	return mcswork.Collected(provider, mcswork.OwnerLabels(exposed(networkingv1alpha1.ExposureTypeCrossCluster)), slice, []byte("{}"), nil)
}

func arrival(provider, consumer string, conditions ...metav1.Condition) *workv1alpha1.Work {
	slice := types.NamespacedName{Namespace: "shop", Name: "web-x"}
	work := mcswork.Dispatched(provider, consumer, mcswork.OwnerLabels(exposed(networkingv1alpha1.ExposureTypeCrossCluster)), slice, []byte("{}"), nil)
	work.Status.Conditions = conditions
	return work
}

func TestConditions(t *testing.T) {
	between := exposure.Clusters{Providers: []string{"a", "b"}, Consumers: []string{"b", "c"}}
	service := webService(corev1.ServiceTypeClusterIP)
	everywhere := bindingWith(applied("a", ""), applied("b", ""), applied("c", ""))
	there := []*workv1alpha1.Work{
		record("a"), record("b"), arrival("a", "b", workv1alpha1.Applied(1)), arrival("a", "c", workv1alpha1.Applied(1)), arrival("b", "c", workv1alpha1.Applied(1)),
	}
	for reason, tc := range map[string]struct {
		state               serviceState
		service, dispatched string // parts of the messages; with "!" in front where the condition is False
	}{
		"all is well": {
			state:   serviceState{exposure: between, service: service, binding: everywhere, works: there},
			service: "The Service is in a, b, c", dispatched: "The endpoints of a, b are in b, c"},
		"no Service": {
			state:   serviceState{exposure: between, obstacle: "Service shop/web does not exist: create it"},
			service: "!shop/web does not exist", dispatched: "!does not exist"},
		"one cluster refuses it": {
			state: serviceState{exposure: between, service: service, works: there, binding: bindingWith(applied("a", ""), applied("b", ""),
				workv1alpha2.AggregatedStatusItem{ClusterName: "c", AppliedMessage: "port is taken"})},
			service: "!cluster c: port is taken", dispatched: "The endpoints"},
		"one cluster has not got it yet": {
			state:   serviceState{exposure: between, service: service, works: there, binding: bindingWith(applied("a", ""), applied("b", ""))},
			service: "!cluster c: the Service is not there yet", dispatched: "The endpoints"},
		"a cluster is not registered": {
			state:   serviceState{exposure: exposure.Clusters{Providers: []string{"a", "b"}, Consumers: []string{"b", "c"}, Unknown: []string{"x"}}, service: service, binding: everywhere, works: there},
			service: "!cluster x is not registered", dispatched: "!cluster x is not registered"},
		"a provider has shown nothing": {
			state:   serviceState{exposure: between, service: service, binding: everywhere, works: there[1:]},
			service: "The Service", dispatched: "!cluster a: no EndpointSlice"},
		"a consumer refuses a slice": {
			state: serviceState{exposure: between, service: service, binding: everywhere, works: []*workv1alpha1.Work{
				there[0], there[1], there[2], arrival("a", "c", workv1alpha1.NotApplied(1, "quota")), there[4]}},
			service: "The Service", dispatched: "!endpoints of cluster a in cluster c: quota"},
		"a slice is on its way": {
			state: serviceState{exposure: between, service: service, binding: everywhere, works: []*workv1alpha1.Work{
				there[0], there[1], there[2], arrival("a", "c"), there[4]}},
			service: "The Service", dispatched: "!endpoints of cluster a in cluster c: they are on their way"},
		"a provider is away": {
			state:   serviceState{exposure: between, service: service, binding: everywhere, works: there, expired: map[string]string{"b": "cluster b has not been ready"}},
			service: "The Service", dispatched: "!cluster b has not been ready: its endpoints are marked as not ready"},
		"a consumer is away": {
			state:   serviceState{exposure: between, service: service, binding: everywhere, works: there, expired: map[string]string{"c": "cluster c has not been ready"}},
			service: "The Service", dispatched: "!cluster c has not been ready: what it has from others may be old"},
		"no clusters at all": {
			state: serviceState{service: service, binding: bindingWith()}, service: "!there are no clusters", dispatched: "no cluster"},
	} {
		t.Run(reason, func(t *testing.T) {
			tc.state.mcs = exposed(networkingv1alpha1.ExposureTypeCrossCluster)
			conditions := tc.state.status().Conditions
			for kind, want := range map[string]string{"ServiceApplied": tc.service, "EndpointSliceDispatched": tc.dispatched} {
				part, failed := strings.CutPrefix(want, "!")
				c := meta.FindStatusCondition(conditions, kind)
				if c == nil || (c.Status == metav1.ConditionFalse) != failed || !strings.Contains(c.Message, part) || c.ObservedGeneration != 4 {
					t.Errorf("%s is %+v, want it false: %v, with %q", kind, c, failed, part)
				}
			}
		})
	}
}

func TestLoadBalancer(t *testing.T) {
	p := serviceState{
		mcs: exposed(networkingv1alpha1.ExposureTypeLoadBalancer), exposure: exposure.Clusters{Providers: []string{"a", "b", "c"}},
		service: webService(corev1.ServiceTypeLoadBalancer),
		binding: bindingWith(
			applied("a", `{"loadBalancer":{"ingress":[{"ip":"192.0.2.9","ipMode":"Proxy"},{"ip":"192.0.2.1","ipMode":"VIP","ports":[{"port":80,"protocol":"TCP"}]}]}}`),
			applied("b", `{"loadBalancer":{"ingress":[{"hostname":"lb.example.com"},{"ip":"192.0.2.1","ipMode":"VIP","ports":[{"port":80,"protocol":"TCP","error":"NoRoute"},{"port":443,"protocol":"TCP"}]}]}}`),
			applied("c", `{"loadBalancer":{}}`),
			applied("other", `{"loadBalancer":{"ingress":[{"ip":"198.51.100.1"}]}}`),
		),
	}
	status := p.status()
	want := []corev1.LoadBalancerIngress{
		{Hostname: "lb.example.com"},
		{IP: "192.0.2.1", IPMode: new(corev1.LoadBalancerIPModeVIP), Ports: []corev1.PortStatus{
			{Port: 80, Protocol: corev1.ProtocolTCP, Error: new("NoRoute")}, {Port: 443, Protocol: corev1.ProtocolTCP}}},
		{IP: "192.0.2.9", IPMode: new(corev1.LoadBalancerIPModeProxy)},
	}
	if diff := cmp.Diff(want, status.LoadBalancer.Ingress); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	c := meta.FindStatusCondition(status.Conditions, "ServiceApplied")
	if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "cluster c: its load balancer has no address yet") {
		t.Errorf("condition is %+v, want it to name the cluster without an address", c)
	}
	if meta.FindStatusCondition(status.Conditions, "EndpointSliceDispatched") != nil {
		t.Error("there is a condition about endpoints, which a load balancer does not exchange")
	}
	p.service = webService(corev1.ServiceTypeClusterIP)
	if c := p.serviceApplied(); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "set its type to LoadBalancer") {
		t.Errorf("condition is %+v, want it to say what to do about the type", c)
	}
}

func TestBindingTakesOverAndGivesBack(t *testing.T) {
	mcs, service := exposed(networkingv1alpha1.ExposureTypeCrossCluster), webService(corev1.ServiceTypeClusterIP)
	policys := &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-service",
			Labels:      map[string]string{policyv1alpha1.PropagationPolicyPermanentIDLabel: "p", workv1alpha2.ResourceBindingPermanentIDLabel: "b"},
			Annotations: map[string]string{policyv1alpha1.PropagationPolicyNameAnnotation: "web", workv1alpha2.TemplateContentAnnotation: "x", "other": "stays"},
		},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource: workv1alpha2.ObjectReference{UID: "uid", ResourceVersion: "3"}, Clusters: []workv1alpha2.TargetCluster{{Name: "a"}},
			PropagateDeps: true, Placement: &policyv1alpha1.Placement{},
		},
	}
	taken, err := bindingFor(mcs, service, []string{"a", "b"}, policys)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case !ours(taken) || taken.Labels[policyv1alpha1.PropagationPolicyPermanentIDLabel] != "":
		t.Errorf("labels are %v, want ours and not the policy's", taken.Labels)
	case taken.Labels[workv1alpha2.ResourceBindingPermanentIDLabel] != "b" || taken.Annotations["other"] != "stays":
		t.Error("what belongs to others was lost")
	case len(taken.Spec.Clusters) != 1:
		t.Error("the targets were lost: copies would go and come again")
	case taken.Spec.PropagateDeps || taken.Spec.ConflictResolution != policyv1alpha1.ConflictOverwrite:
		t.Errorf("spec is %+v, want nothing of the policy's in it", taken.Spec)
	case taken.Spec.Resource.ResourceVersion != "5":
		t.Error("the binding is not rendered afresh")
	}
	service.ResourceVersion = "6" // status, say
	if again, err := bindingFor(mcs, service, []string{"a", "b"}, taken); err != nil || !cmp.Equal(again, taken) {
		t.Errorf("a second reconcile changes something (%v):\n%s", err, cmp.Diff(taken, again))
	}
	service.Spec.Ports[0].Port = 81
	if changed, err := bindingFor(mcs, service, []string{"a", "b"}, taken); err != nil || changed.Spec.Resource.ResourceVersion != "6" {
		t.Errorf("a changed Service does not reach its binding (%v)", err)
	}
	back := returned(taken)
	if ours(back) || len(back.Annotations) != 1 || back.Annotations["other"] != "stays" {
		t.Errorf("what is given back has labels %v and annotations %v", back.Labels, back.Annotations)
	}
}

func TestClaimGivesWayAndComesBack(t *testing.T) {
	mcs, service := exposed(networkingv1alpha1.ExposureTypeCrossCluster), webService(corev1.ServiceTypeClusterIP)
	service.Labels = map[string]string{policyv1alpha1.ClusterPropagationPolicyPermanentIDLabel: "p", "app": "web"}
	service.Annotations = map[string]string{policyv1alpha1.ClusterPropagationPolicyNameAnnotation: "all"}
	put := func(p hubstore.MetadataPatch) {
		for _, m := range []struct {
			have    *map[string]string
			changes map[string]*string
		}{{&service.Labels, p.Labels}, {&service.Annotations, p.Annotations}} {
			for key, value := range m.changes {
				if value == nil {
					delete(*m.have, key)
				} else {
					(*m.have)[key] = *value
				}
			}
		}
	}
	put(claimPatch(service, mcs))
	if !claimed(service) || policyOn(service) != "" || service.Annotations[policyv1alpha1.ClusterPropagationPolicyNameAnnotation] != "" || service.Labels["app"] != "web" {
		t.Errorf("claimed: labels %v, annotations %v", service.Labels, service.Annotations)
	}
	if !claimPatch(service, mcs).Empty() {
		t.Error("a second claim changes something")
	}
	put(releasePatch(service))
	if claimed(service) || len(service.Labels) != 1 || len(service.Annotations) != 0 {
		t.Errorf("released: labels %v, annotations %v", service.Labels, service.Annotations)
	}
}

func TestNews(t *testing.T) {
	p := serviceState{mcs: exposed(networkingv1alpha1.ExposureTypeCrossCluster), exposure: exposure.Clusters{Unknown: []string{"x"}}}
	reasons := func(before, after []metav1.Condition) (list []string) {
		for _, e := range eventsOf(p, before, after) {
			list = append(list, e.Type+" "+e.Reason)
		}
		return list
	}
	yes, no := networkingv1alpha1.ServiceApplied(1, "in a"), networkingv1alpha1.ServiceNotApplied(1, "not in a")
	lost := "Warning " + events.ClusterNotFound
	if diff := cmp.Diff([]string{"Normal SyncServiceSucceed", lost}, reasons(nil, []metav1.Condition{yes})); diff != "" {
		t.Errorf("arrival (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Warning SyncServiceFailed", lost}, reasons([]metav1.Condition{yes}, []metav1.Condition{no})); diff != "" {
		t.Errorf("loss (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{lost}, reasons(nil, []metav1.Condition{no})); diff != "" {
		t.Errorf("on its way (-want +got):\n%s", diff)
	}
	p.obstacle = "not in a"
	if diff := cmp.Diff([]string{"Warning SyncServiceFailed", lost}, reasons(nil, []metav1.Condition{no})); diff != "" {
		t.Errorf("obstacle (-want +got):\n%s", diff)
	}
}

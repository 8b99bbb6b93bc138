package capacity_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/capacity"
)

func ofClass(operator corev1.ScopeSelectorOperator, values ...string) corev1.ScopedResourceSelectorRequirement {
	return corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values}
}

func TestQuotaOf(t *testing.T) {
	high := []corev1.ScopedResourceSelectorRequirement{ofClass(corev1.ScopeSelectorOpIn, "high")}
	for name, test := range map[string]struct {
		scopes     []corev1.ResourceQuotaScope
		selector   []corev1.ScopedResourceSelectorRequirement
		hard, used corev1.ResourceList
		free       corev1.ResourceList // nil: not reported
	}{
		"Requests":        {hard: list("requests.cpu", "2", "requests.memory", "1Gi", "pods", "10"), used: list("requests.cpu", "500m", "pods", "4"), free: list("cpu", "1500m", "memory", "1Gi", "pods", "6")},
		"ShortNames":      {hard: list("cpu", "2", "count/pods", "3"), free: list("cpu", "2", "pods", "3")},
		"BothNames":       {hard: list("cpu", "2", "requests.cpu", "1", "pods", "9", "count/pods", "3"), free: list("cpu", "1", "pods", "3")},
		"Exceeded":        {hard: list("cpu", "2"), used: list("cpu", "3"), free: list("cpu", "0")},
		"Extended":        {hard: list("requests.nvidia.com/gpu", "4"), used: list("requests.nvidia.com/gpu", "1"), free: list("nvidia.com/gpu", "3")},
		"OtherObjects":    {hard: list("services", "2", "count/deployments.apps", "1", "requests.storage", "1Gi", "limits.cpu", "1")},
		"NotCountedYet":   {},
		"PriorityClass":   {selector: high, hard: list("pods", "2"), free: list("pods", "2")},
		"AnyClass":        {scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopePriorityClass}, hard: list("pods", "2"), free: list("pods", "2")},
		"OtherScope":      {scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, hard: list("pods", "2")},
		"OneOfTwoIsOther": {scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}, selector: high, hard: list("pods", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "q"}}
			q.Spec.Scopes, q.Status.Hard, q.Status.Used = test.scopes, test.hard, test.used
			if test.selector != nil {
				q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: test.selector}
			}
			got, bounds := capacity.QuotaOf(q)
			if bounds != (test.free != nil) || bounds && !equality.Semantic.DeepEqual(got.Free, test.free) {
				t.Errorf("free is %v, %v", got.Free, bounds)
			}
		})
	}
}

// large holds a thousand pods but for its quotas.
func large(quotas ...fleetv1alpha1.Quota) capacity.Headroom {
	free := list("cpu", "1000", "pods", "1000")
	return capacity.HeadroomOf(cluster(free, nil, nil)).On(capacity.NodesOf(&fleetv1alpha1.ClusterCapacity{
		Nodes: []fleetv1alpha1.NodeSet{{Buckets: []fleetv1alpha1.Bucket{{Count: 1, Free: free}}}}, Quotas: quotas,
	}))
}

func quota(name string, free corev1.ResourceList, classes ...corev1.ScopedResourceSelectorRequirement) fleetv1alpha1.Quota {
	return fleetv1alpha1.Quota{Namespace: "shop", Name: name, PriorityClasses: classes, Free: free}
}

func TestQuotasBoundWhatFits(t *testing.T) {
	one := capacity.DemandOf(list("cpu", "100m"))
	set := capacity.DemandOfSet([]workv1alpha2.Component{
		{Replicas: 1, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: list("cpu", "100m"), PriorityClassName: "high"}},
		{Replicas: 3, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: list("cpu", "200m")}},
	})
	for name, test := range map[string]struct {
		quotas []fleetv1alpha1.Quota
		demand capacity.Demand
		fit    int32
		full   []string
	}{
		"None":            {nil, one.In("shop", ""), 1000, nil},
		"OtherNamespace":  {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"))}, one.In("bank", ""), 1000, nil},
		"Pods":            {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"))}, one.In("shop", ""), 3, nil},
		"CPU":             {[]fleetv1alpha1.Quota{quota("q", list("cpu", "750m"))}, one.In("shop", ""), 7, nil},
		"TheLeastCounts":  {[]fleetv1alpha1.Quota{quota("q", list("cpu", "750m")), quota("r", list("pods", "2"))}, one.In("shop", ""), 2, nil},
		"Full":            {[]fleetv1alpha1.Quota{quota("q", list("cpu", "50m")), quota("r", list("pods", "2"))}, one.In("shop", ""), 0, []string{"q"}},
		"NotRequested":    {[]fleetv1alpha1.Quota{quota("q", list("memory", "0"))}, one.In("shop", ""), 1000, nil},
		"OfItsClass":      {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"), ofClass(corev1.ScopeSelectorOpIn, "high"))}, one.In("shop", "high"), 3, nil},
		"OfAnotherClass":  {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"), ofClass(corev1.ScopeSelectorOpIn, "high"))}, one.In("shop", "low"), 1000, nil},
		"OfNoClass":       {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"), ofClass(corev1.ScopeSelectorOpDoesNotExist))}, one.In("shop", ""), 3, nil},
		"NotOfOneClass":   {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"), ofClass(corev1.ScopeSelectorOpNotIn, "low"))}, one.In("shop", "low"), 1000, nil},
		"OfAnyClass":      {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"), ofClass(corev1.ScopeSelectorOpExists))}, one.In("shop", ""), 1000, nil},
		"WholeSets":       {[]fleetv1alpha1.Quota{quota("q", list("cpu", "1500m"))}, set.In("shop", ""), 2, nil},
		"OneOfTheSet":     {[]fleetv1alpha1.Quota{quota("q", list("pods", "5"), ofClass(corev1.ScopeSelectorOpIn, "high"))}, set.In("shop", ""), 5, nil},
		"UnknownOperator": {[]fleetv1alpha1.Quota{quota("q", list("pods", "3"), ofClass("Near", "high"))}, one.In("shop", ""), 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, none := large(test.quotas...), capacity.Usage{}
			if fit := h.Fit(&test.demand, &none); fit != test.fit && !(test.fit == 1000 && fit > 100) {
				t.Errorf("%d fit, want %d", fit, test.fit)
			}
			if full := h.FullQuotas(&test.demand, &none); !slices.Equal(full, test.full) {
				t.Errorf("full are %v, want %v", full, test.full)
			}
		})
	}
}

// TestReservationsCountAgainstQuotas: a burst of decisions does not use what a quota leaves twice.
func TestReservationsCountAgainstQuotas(t *testing.T) {
	h := large(quota("q", list("pods", "3")))
	one := capacity.DemandOf(list("cpu", "100m"))
	r := capacity.NewReservations(time.Hour)
	fit := func() int32 {
		demand, taken := one.In("shop", ""), r.Taken("m1")
		return h.Fit(&demand, &taken)
	}
	r.Reserve("bank/a", one.In("bank", ""), map[string]int32{"m1": 5}, time.Unix(0, 0))
	if got := fit(); got != 3 {
		t.Errorf("%d fit with a reservation of another namespace, want 3", got)
	}
	r.Reserve("shop/a", one.In("shop", "high"), map[string]int32{"m1": 2}, time.Unix(0, 0))
	if got := fit(); got != 1 {
		t.Errorf("%d fit beside two, want 1", got)
	}
	r.Reserve("shop/b", one.In("shop", ""), map[string]int32{"m1": 1}, time.Unix(0, 0))
	if got := fit(); got != 0 {
		t.Errorf("%d fit beside three, want none", got)
	}
	r.Forget("shop/a")
	if got := fit(); got != 2 {
		t.Errorf("%d fit once two are free again, want 2", got)
	}
	r.Forget("shop/b")
	r.Forget("bank/a")
	if taken := r.Taken("m1"); !taken.IsZero() {
		t.Errorf("%+v is taken, want nothing", taken)
	}
}

func TestAQuotaThatLeavesMoreExceeds(t *testing.T) {
	before := large(quota("q", list("cpu", "1", "pods", "3")))
	for name, test := range map[string]struct {
		now     capacity.Headroom
		exceeds bool
	}{
		"Same":         {large(quota("q", list("cpu", "1", "pods", "3"))), false},
		"Less":         {large(quota("q", list("cpu", "1", "pods", "2"))), false},
		"More":         {large(quota("q", list("cpu", "2", "pods", "3"))), true},
		"Gone":         {large(), true},
		"BoundsLess":   {large(quota("q", list("cpu", "1"))), true},
		"AnotherOne":   {large(quota("q", list("cpu", "1", "pods", "3")), quota("r", list("pods", "1"))), false},
		"OneInAnother": {large(fleetv1alpha1.Quota{Namespace: "bank", Name: "q", Free: list("cpu", "1", "pods", "3")}), true},
	} {
		if got := test.now.Exceeds(&before); got != test.exceeds {
			t.Errorf("%s: exceeds is %v", name, got)
		}
	}
}

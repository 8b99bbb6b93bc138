package mcswork

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
)

// TestKindsOfWorks: each Work is recognised as what it is, leads to its owner, and has the execution finalizer if it is applied.
func TestKindsOfWorks(t *testing.T) {
	mcs := &networkingv1alpha1.MultiClusterService{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web", Labels: map[string]string{networkingv1alpha1.MultiClusterServicePermanentIDLabel: "id"},
	}}
	slice := types.NamespacedName{Namespace: "shop", Name: "web-" + strings.Repeat("x", 100)} // too long for a label
	registration, err := Registration(mcs, "a", nil, true)
	if err != nil {
		t.Fatal(err)
	}
	record := Collected("a", OwnerLabelsOn(registration), slice, []byte("{}"), nil)
	dispatched := Dispatched("a", "b", OwnerLabelsOn(record), slice, []byte("{}"), nil)
	for reason, tc := range map[string]struct {
		work                                *workv1alpha1.Work
		registration, collected, dispatched bool
		finalizers                          int
		suspended                           bool
	}{
		"a registration":    {work: registration, registration: true, suspended: true},
		"a record":          {work: record, collected: true, suspended: true},
		"a dispatched Work": {work: dispatched, dispatched: true, finalizers: 1},
		"another Work":      {work: &workv1alpha1.Work{}},
	} {
		t.Run(reason, func(t *testing.T) {
			w := tc.work
			if IsRegistration(w) != tc.registration || IsCollected(w) != tc.collected || IsDispatched(w) != tc.dispatched {
				t.Errorf("registration %v, collected %v, dispatched %v", IsRegistration(w), IsCollected(w), IsDispatched(w))
			}
			if len(w.Finalizers) != tc.finalizers || (w.Spec.SuspendDispatching != nil) != tc.suspended {
				t.Errorf("it has finalizers %v and is suspended: %v", w.Finalizers, w.Spec.SuspendDispatching)
			}
			if owner := OwnerOf(w); w.Name != "" && owner != client.ObjectKeyFromObject(mcs) {
				t.Errorf("its owner is %s", owner)
			}
		})
	}
	if got := SourceOf(dispatched); got != client.ObjectKeyFromObject(record) {
		t.Errorf("the source is %s, want %s/%s", got, record.Namespace, record.Name)
	}
	if got := endpointslices.SliceOf(dispatched); got != slice {
		t.Errorf("the slice is %s, want %s", got, slice)
	}
	if again, err := Registration(mcs, "a", registration, false); err != nil || again.Annotations[networkingv1alpha1.SelectorlessServiceAnnotation] != "" {
		t.Errorf("a Service that got a selector is registered without one: %v (%v)", again.Annotations, err)
	}
}

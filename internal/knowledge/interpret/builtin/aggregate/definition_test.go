package aggregate_test

import (
	"testing"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestAggregateDefinitions(t *testing.T) {
	const established = "{conditions: [{type: Established, status: 'True'}], storedVersions: [v1]}"
	tests := map[string]struct {
		items               []workv1alpha2.AggregatedStatusItem
		established, stored string
	}{
		"everywhere": {
			[]workv1alpha2.AggregatedStatusItem{item(t, "m1", established), item(t, "m2", established)}, "True", "True",
		},
		"one silent": {
			[]workv1alpha2.AggregatedStatusItem{item(t, "m1", established), silent("m2")}, "False", "False",
		},
		"names taken in one": {
			[]workv1alpha2.AggregatedStatusItem{item(t, "m1", established), item(t, "m2", "{conditions: [{type: Established, status: 'False'}], storedVersions: [v1]}")}, "False", "True",
		},
		"an older version in one": {
			[]workv1alpha2.AggregatedStatusItem{item(t, "m1", established), item(t, "m2", "{conditions: [{type: Established, status: 'True'}], storedVersions: [v1beta1, v1]}")}, "True", "False",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, "apiextensions.k8s.io/v1/CustomResourceDefinition",
				"{spec: {versions: [{name: v1, storage: true}]}, status: {storedVersions: [v0], conditions: [{type: Established, status: 'True'}]}}")
			got := aggregate(t, template, tc.items...)
			if status, _ := conditionOf(got, "EstablishedInMembers"); status != tc.established {
				t.Errorf("EstablishedInMembers is %q, want %q", status, tc.established)
			}
			if status, _ := conditionOf(got, "StoredInOneVersion"); status != tc.stored {
				t.Errorf("StoredInOneVersion is %q, want %q", status, tc.stored)
			}
			if status, _ := conditionOf(got, "Established"); status != "True" {
				t.Error("the hub's own condition is lost")
			}
			if stored, _ := statusOf(got)["storedVersions"].([]any); len(stored) != 1 || stored[0] != "v0" {
				t.Errorf("the hub's own stored versions became %v", stored)
			}
		})
	}
}

func TestADefinitionWithoutCopiesHasNoConditions(t *testing.T) {
	template := ofKind(t, "apiextensions.k8s.io/v1/CustomResourceDefinition", "{spec: {versions: [{name: v1, storage: true}]}, status: {conditions: "+
		"[{type: EstablishedInMembers, status: 'True'}, {type: Established, status: 'True'}, {type: StoredInOneVersion, status: 'True'}]}}")
	got := aggregate(t, template)
	for kind, want := range map[string]string{"EstablishedInMembers": "", "StoredInOneVersion": "", "Established": "True"} {
		if status, _ := conditionOf(got, kind); status != want {
			t.Errorf("%s is %q, want %q", kind, status, want)
		}
	}
	if aggregate(t, got) != got {
		t.Error("there is something to write where nothing is reported")
	}
}

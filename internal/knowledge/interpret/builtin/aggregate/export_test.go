package aggregate_test

import (
	"testing"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func TestAggregateExports(t *testing.T) {
	const (
		fine     = "{conditions: [{type: Valid, status: 'True', reason: Valid}, {type: Conflict, status: 'False', reason: NoConflicts}]}"
		without  = "{conditions: [{type: Valid, status: 'False', reason: NoService, message: create it}]}"
		disputed = "{conditions: [{type: Valid, status: 'True', reason: Valid}, {type: Conflict, status: 'True', reason: PortConflict}]}"
	)
	tests := map[string]struct {
		items           []workv1alpha2.AggregatedStatusItem
		valid, conflict string
	}{
		"all fine":             {[]workv1alpha2.AggregatedStatusItem{item(t, "m1", fine), item(t, "m2", fine)}, "True", "False"},
		"one without Service":  {[]workv1alpha2.AggregatedStatusItem{item(t, "m1", fine), item(t, "m2", without)}, "False", "False"},
		"only without Service": {[]workv1alpha2.AggregatedStatusItem{item(t, "m1", without)}, "False", ""},
		"a conflict":           {[]workv1alpha2.AggregatedStatusItem{item(t, "m1", disputed), item(t, "m2", fine)}, "True", "True"},
		"one silent":           {[]workv1alpha2.AggregatedStatusItem{item(t, "m1", fine), silent("m2")}, "True", "False"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			template := ofKind(t, "multicluster.x-k8s.io/v1beta1/ServiceExport", "{status: {conditions: [{type: Conflict, status: 'Unknown'}, {type: Other, status: 'True'}]}}")
			got := aggregate(t, template, tc.items...)
			for kind, want := range map[string]string{"Valid": tc.valid, "Conflict": tc.conflict, "Ready": "", "Other": "True"} {
				if status, _ := conditionOf(got, kind); status != want {
					t.Errorf("%s is %q, want %q", kind, status, want)
				}
			}
		})
	}
}

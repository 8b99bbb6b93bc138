package resourceclaims

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
)

func claimOf(class, driver, label string) *v1alpha2.ResourceClaim {
	return &v1alpha2.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"l": label}, Generation: 7},
		Spec:       v1alpha2.ResourceClaimSpec{ResourceClassName: class},
		Status:     v1alpha2.ResourceClaimStatus{DriverName: driver},
	}
}

func contextOf(node, claim, label string) *v1alpha2.PodSchedulingContext {
	return &v1alpha2.PodSchedulingContext{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"l": label}},
		Spec:       v1alpha2.PodSchedulingContextSpec{SelectedNode: node},
		Status: v1alpha2.PodSchedulingContextStatus{
			ResourceClaims: []v1alpha2.ResourceClaimSchedulingStatus{{Name: claim}},
		},
	}
}

func TestEndpointsWriteTheirOwnPartOnly(t *testing.T) {
	for name, test := range map[string]struct {
		prepare            func(written, old runtime.Object)
		written, old, want runtime.Object
	}{
		"claim":             {prepared(claimRules()), claimOf("new", "new", "new"), claimOf("old", "old", "old"), claimOf("new", "old", "new")},
		"claim status":      {prepared(claimStatusRules()), claimOf("new", "new", "new"), claimOf("old", "old", "old"), claimOf("old", "new", "old")},
		"scheduling":        {prepared(schedulingRules()), contextOf("new", "new", "new"), contextOf("old", "old", "old"), contextOf("new", "old", "new")},
		"scheduling status": {prepared(schedulingStatusRules()), contextOf("new", "new", "new"), contextOf("old", "old", "old"), contextOf("old", "new", "old")},
	} {
		test.prepare(test.written, test.old)
		if diff := cmp.Diff(test.want, test.written); diff != "" {
			t.Errorf("%s: wanted (-), got (+):\n%s", name, diff)
		}
	}
}

func prepared[T runtime.Object](rules rules[T]) func(written, old runtime.Object) {
	return func(written, old runtime.Object) {
		strategy[T]{rules: rules}.PrepareForUpdate(context.Background(), written, old)
	}
}

func TestNewObjectsHaveNoStatus(t *testing.T) {
	claim, scheduling := claimOf("c", "driver", "l"), contextOf("n", "c", "l")
	strategy[*v1alpha2.ResourceClaim]{rules: claimRules()}.PrepareForCreate(t.Context(), claim)
	strategy[*v1alpha2.PodSchedulingContext]{rules: schedulingRules()}.PrepareForCreate(t.Context(), scheduling)
	if claim.Status.DriverName != "" || len(scheduling.Status.ResourceClaims) > 0 {
		t.Error("a status that came with a new object was kept")
	}
	if claim.Generation != 7 {
		t.Errorf("generation %d, want it as the client sent it", claim.Generation)
	}
}

func TestState(t *testing.T) {
	allocation := &v1alpha2.AllocationResult{}
	consumers := []v1alpha2.ResourceClaimConsumerReference{{Name: "p"}}
	for want, claims := range map[string][]v1alpha2.ResourceClaim{
		"pending":                        {{}, {Status: v1alpha2.ResourceClaimStatus{DriverName: "d"}}},
		"allocated":                      {{Status: v1alpha2.ResourceClaimStatus{Allocation: allocation}}},
		"allocated,reserved":             {{Status: v1alpha2.ResourceClaimStatus{Allocation: allocation, ReservedFor: consumers}}, {Status: v1alpha2.ResourceClaimStatus{Allocation: allocation, ReservedFor: consumers, DeallocationRequested: true}}},
		"allocated,deallocating":         {{Status: v1alpha2.ResourceClaimStatus{Allocation: allocation, DeallocationRequested: true}}},
		"deleted":                        {{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}},
		"deleted,allocated,deallocating": {{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: v1alpha2.ResourceClaimStatus{Allocation: allocation}}},
		"deleted,allocated,reserved":     {{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Status: v1alpha2.ResourceClaimStatus{Allocation: allocation, ReservedFor: consumers}}},
	} {
		for _, claim := range claims {
			if got := state(&claim); got != want {
				t.Errorf("%+v is %q, want %q", claim.Status, got, want)
			}
		}
	}
}

func TestTables(t *testing.T) {
	for name, test := range map[string]struct {
		convert func(context.Context, runtime.Object, runtime.Object) (*metav1.Table, error)
		list    runtime.Object
		columns []string
		row     []any
	}{
		"claims": {
			claimTable().ConvertToTable, &v1alpha2.ResourceClaimList{Items: []v1alpha2.ResourceClaim{*claimOf("class", "", "")}},
			[]string{"Name", "ResourceClassName", "AllocationMode", "State", "Age"}, []any{"c", "class", "", "pending", "<unknown>"},
		},
		"templates": {
			templateTable().ConvertToTable, &v1alpha2.ResourceClaimTemplateList{Items: []v1alpha2.ResourceClaimTemplate{{ObjectMeta: metav1.ObjectMeta{Name: "t"}}}},
			[]string{"Name", "ResourceClassName", "AllocationMode", "Age"}, []any{"t", "", "", "<unknown>"},
		},
		"classes": {
			classTable().ConvertToTable, &v1alpha2.ResourceClassList{Items: []v1alpha2.ResourceClass{{DriverName: "d"}}},
			[]string{"Name", "DriverName", "Age"}, []any{"", "d", "<unknown>"},
		},
		"schedulings": {
			schedulingTable().ConvertToTable, &v1alpha2.PodSchedulingContextList{Items: []v1alpha2.PodSchedulingContext{*contextOf("n", "", "")}},
			[]string{"Name", "SelectedNode", "Age"}, []any{"c", "n", "<unknown>"},
		},
	} {
		table, err := test.convert(t.Context(), test.list, nil)
		if err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, column := range table.ColumnDefinitions {
			columns = append(columns, column.Name)
		}
		if diff := cmp.Diff(test.columns, columns); diff != "" {
			t.Errorf("%s: columns: %s", name, diff)
		}
		if diff := cmp.Diff(test.row, table.Rows[0].Cells); diff != "" {
			t.Errorf("%s: row: %s", name, diff)
		}
	}
	if _, err := classTable().ConvertToTable(t.Context(), &v1alpha2.ResourceClaim{}, nil); err == nil {
		t.Error("a claim is shown as a class")
	}
}

package resourceclaims

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
)

// column is one column between name and age.
type column[T runtime.Object] struct {
	name, description string
	cell              func(object T) string
}

// table is how "kubectl get" shows a kind: name, some columns, age.
type table[T runtime.Object] []column[T]

// ConvertToTable makes a row of each object.
func (t table[T]) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return native.Table(object, options, t.columns(), func(object runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		typed, ok := object.(T)
		if !ok {
			return nil, fmt.Errorf("a %T does not belong in this table", object)
		}
		cells := []any{name}
		for _, column := range t {
			cells = append(cells, column.cell(typed))
		}
		return append(cells, age), nil
	})
}

func (t table[T]) columns() []metav1.TableColumnDefinition {
	columns := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the object."}}
	for _, column := range t {
		columns = append(columns, metav1.TableColumnDefinition{Name: column.name, Type: "string", Description: column.description})
	}
	return append(columns, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: "Time since the object was created."})
}

func claimTable() table[*v1alpha2.ResourceClaim] {
	return table[*v1alpha2.ResourceClaim]{
		{"ResourceClassName", "Class that serves the claim.", func(claim *v1alpha2.ResourceClaim) string {
			return claim.Spec.ResourceClassName
		}},
		{"AllocationMode", "When the claim is allocated.", func(claim *v1alpha2.ResourceClaim) string {
			return string(claim.Spec.AllocationMode)
		}},
		{"State", "How far the claim has come.", state},
	}
}

// state describes the state of a claim.
func state(claim *v1alpha2.ResourceClaim) string {
	var words []string
	deleted := claim.DeletionTimestamp != nil
	if deleted {
		words = append(words, "deleted")
	}
	switch status := claim.Status; {
	case status.Allocation == nil:
		if !deleted {
			words = append(words, "pending")
		}
	case len(status.ReservedFor) > 0:
		words = append(words, "allocated", "reserved")
	case deleted || status.DeallocationRequested:
		words = append(words, "allocated", "deallocating")
	default:
		words = append(words, "allocated")
	}
	return strings.Join(words, ",")
}

func templateTable() table[*v1alpha2.ResourceClaimTemplate] {
	return table[*v1alpha2.ResourceClaimTemplate]{
		{"ResourceClassName", "Class that serves the claims.", func(template *v1alpha2.ResourceClaimTemplate) string {
			return template.Spec.Spec.ResourceClassName
		}},
		{"AllocationMode", "When the claims are allocated.", func(template *v1alpha2.ResourceClaimTemplate) string {
			return string(template.Spec.Spec.AllocationMode)
		}},
	}
}

func classTable() table[*v1alpha2.ResourceClass] {
	return table[*v1alpha2.ResourceClass]{
		{"DriverName", "Driver that serves claims of the class.", func(class *v1alpha2.ResourceClass) string {
			return class.DriverName
		}},
	}
}

func schedulingTable() table[*v1alpha2.PodSchedulingContext] {
	return table[*v1alpha2.PodSchedulingContext]{
		{"SelectedNode", "Node the pod's claims are to be allocated for.", func(scheduling *v1alpha2.PodSchedulingContext) string {
			return scheduling.Spec.SelectedNode
		}},
	}
}

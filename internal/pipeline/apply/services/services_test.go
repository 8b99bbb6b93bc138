package services_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/objects"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/services"
)

func service(nodePorts ...int64) *unstructured.Unstructured {
	var ports []any
	for i, number := range nodePorts {
		port := map[string]any{"port": int64(80 + i)}
		if number != 0 {
			port["nodePort"] = number
		}
		ports = append(ports, port)
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Service", "spec": map[string]any{"ports": ports}}}
}

func refusal(number any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
		Field: "spec.ports[0].nodePort", Message: fmt.Sprintf("Invalid value: %v: provided port is already allocated", number),
	}}}}}
}

func TestReleasePorts(t *testing.T) {
	tests := map[string]struct {
		reason    string
		body, got *unstructured.Unstructured
		awaited   string
		taken     []int64
		broken    bool
		want      int64 // the first node port afterwards
		applies   int
	}{
		"Exchanged": {"another Service waits for the port, which this one does not want", service(0, 31000), service(30080, 31000), "30080", nil, false, 30081, 1},
		"Taken":     {"the next free one is given", service(0, 31000), service(30080, 31000), "30080", []int64{30081, 30082}, false, 30083, 3},
		"Wanted":    {"a port that the Service wants stays", service(30080), service(30080), "30080", nil, false, 30080, 0},
		"Alone":     {"and one that no other Service waits for", service(0), service(30080), "30090", nil, false, 30080, 0},
		"NoPort":    {"a Service without node ports has none to release", service(0), service(0), "", nil, false, 0, 0},
		"Broken":    {"other errors are returned", service(0), service(30080), "30080", nil, true, 0, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			broken, applies := errors.New("the member does not answer"), 0
			first := func(s *unstructured.Unstructured) int64 {
				ports, _, _ := unstructured.NestedSlice(s.Object, "spec", "ports")
				number, _ := ports[0].(map[string]any)["nodePort"].(int64)
				return number
			}
			got, err := services.ReleasePorts(tc.body, tc.got, func(port string) bool { return port == tc.awaited }, func() (*unstructured.Unstructured, error) {
				applies++
				if number := first(tc.body); slices.Contains(tc.taken, number) {
					return nil, refusal(number)
				}
				if tc.broken {
					return nil, broken
				}
				return tc.body.DeepCopy(), nil
			})
			if errors.Is(err, broken) != tc.broken || err == nil && first(got) != tc.want || applies != tc.applies {
				t.Errorf("%s: after %d applies it is %v, %v", tc.reason, applies, got, err)
			}
		})
	}
}

// TestIsFamilyUnsupported: what counts is the field that the member refuses, not the text of its answer.
func TestIsFamilyUnsupported(t *testing.T) {
	kind, path := schema.GroupKind{Kind: "Service"}, field.NewPath("spec")
	families := apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(path.Child("ipFamilies").Index(0), "IPv6", "not configured on this cluster")})
	other := apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(path.Child("ports"), "80", "not with ipFamilies")})
	if wrapped := fmt.Errorf("applying Service web: %w", families); !services.IsFamilyUnsupported(wrapped) {
		t.Errorf("%v: it is not recognized", wrapped)
	}
	for _, err := range []error{other, errors.New("spec.ipFamilies"), apierrors.NewForbidden(schema.GroupResource{}, "web", families)} {
		if services.IsFamilyUnsupported(err) {
			t.Errorf("%v: it counts as a refusal of families", err)
		}
	}
	if !objects.Only(services.IsFamilyUnsupported, []error{families, families}) || objects.Only(services.IsFamilyUnsupported, []error{families, other}) || objects.Only(services.IsFamilyUnsupported, nil) {
		t.Error("all of the errors have to be refusals of families, and there has to be one")
	}
}

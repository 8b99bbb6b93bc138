package admission_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/flagship-k8s/flagship/internal/host/admission"
)

func TestAPIServicesOfUsersAndTheControlPlaneStayApart(t *testing.T) {
	service := func(registered bool, edits ...func(*apiregistration.APIService)) runtime.Object {
		s := &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.example.io"}}
		s.Spec.Group, s.Spec.Version = "example.io", "v1"
		if registered {
			s.Labels = map[string]string{"kube-aggregator.kubernetes.io/automanaged": "true"}
		} else {
			s.Spec.Service = &apiregistration.ServiceReference{Namespace: "mon", Name: "adapter"}
		}
		for _, edit := range edits {
			edit(s)
		}
		return s
	}
	definition := func(served bool) runtime.Object {
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gears.example.io"}}
		d.Spec.Group, d.Spec.Versions = "example.io", []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: served}}
		return d
	}
	serve := func(s *apiregistration.APIService) { s.Spec.Service = &apiregistration.ServiceReference{Name: "x"} }
	annotate := func(s *apiregistration.APIService) { s.Annotations = map[string]string{"a": "b"} }
	label := func(s *apiregistration.APIService) {
		s.Labels = map[string]string{"kube-aggregator.kubernetes.io/automanaged": "x"}
	}
	none := func(s *apiregistration.APIService) { s.Spec.Service = nil }
	for name, tc := range map[string]struct {
		object, old runtime.Object
		by          string
		taken       bool
		err         error
		refused     func(error) bool
	}{
		"of a chart":                                {object: service(false)},
		"a change of it":                            {object: service(false, annotate), old: service(false)},
		"its deletion":                              {old: service(false)},
		"without a service":                         {object: service(false, none), refused: apierrors.IsInvalid},
		"with the label of a registration":          {object: service(false, label), refused: apierrors.IsInvalid},
		"made a registration":                       {object: service(false, label), old: service(false), refused: apierrors.IsInvalid},
		"a registration by the control plane":       {object: service(true), by: user.APIServerUser},
		"a registration gets a service":             {object: service(true, serve), old: service(true), refused: apierrors.IsForbidden},
		"a registration loses its label":            {object: service(false, none), old: service(true), refused: apierrors.IsForbidden},
		"a registration gets an annotation":         {object: service(true, annotate), old: service(true)},
		"a registration is deleted":                 {old: service(true), refused: apierrors.IsForbidden},
		"a definition":                              {object: definition(true)},
		"a definition of what an APIService names":  {object: definition(true), taken: true, refused: apierrors.IsInvalid},
		"it does not serve the version":             {object: definition(false), taken: true},
		"it served the version before":              {object: definition(true), old: definition(true), taken: true},
		"it begins to serve the version":            {object: definition(true), old: definition(false), taken: true, refused: apierrors.IsInvalid},
		"a definition, and APIServices are unknown": {object: definition(true), err: errors.New("no answer"), refused: apierrors.IsServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := admission.NewAPIServices(func(_ context.Context, gv schema.GroupVersion) (bool, error) {
				if gv.String() != "example.io/v1" {
					t.Errorf("asked about %s", gv)
				}
				return tc.taken, tc.err
			})
			operation := kadmission.Update
			if tc.object == nil {
				operation = kadmission.Delete
			} else if tc.old == nil {
				operation = kadmission.Create
			}
			err := plugin.Validate(t.Context(), kadmission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{}, "", "v1.example.io",
				schema.GroupVersionResource{}, "", operation, nil, false, &user.DefaultInfo{Name: tc.by}), nil)
			if tc.refused == nil && err != nil || tc.refused != nil && !tc.refused(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

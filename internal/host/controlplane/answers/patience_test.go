package answers

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
)

// TestWhyValuesAreHidden: a member that does not answer does not mean that a right is missing.
func TestWhyValuesAreHidden(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"NoRight":     {apierrors.NewForbidden(schema.GroupResource{Resource: "clusters/proxy"}, "m1", nil), valuesHidden},
		"Gone":        {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "c"), valuesHidden},
		"Unreachable": {apierrors.NewServiceUnavailable("no connection"), valuesUnknown},
		"Slow":        {context.DeadlineExceeded, valuesUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Answerer{Members: func(string, user.Info) (dynamic.Interface, error) { return nil, tc.err }}
			o := drifted{DriftedObject: &fleetv1alpha1.DriftedObject{Cluster: "m1"}}
			if got := a.unreadable(t.Context(), o, &user.DefaultInfo{}); got != tc.want {
				t.Errorf("the reason is %q, want %q", got, tc.want)
			}
		})
	}
}

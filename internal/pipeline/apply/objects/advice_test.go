package objects

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAdviceOnRefusals: only who lacks a right is advised to get one.
func TestAdviceOnRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`User "system:serviceaccount:karmada-cluster:m1" cannot create resource "deployments" in API group "apps" in the namespace "shop"`: "grant it there to the ServiceAccount shop/tenant",
		`user "x" (groups=["y"]) is attempting to grant RBAC permissions not currently held:`:                                              "grant it there to the ServiceAccount shop/tenant",
		`exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1`:                                                          "raise the quota there",
		`failed quota: small: must specify limits.cpu for: c`:                                                                              "raise the quota there",
		`admission webhook "guard.example.com" denied the request: no`:                                                                     "no right is missing",
		`violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`:                                                      "no right is missing",
		`ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression`:                                                 "no right is missing",
	} {
		try := target{Access: Access{Account: "tenant"}}
		try.Object.Namespace = "shop"
		err := try.refused(apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", errors.New(text)))
		if !IsForbidden(err) || !strings.Contains(err.Error(), want) || want != "grant it there to the ServiceAccount shop/tenant" && strings.Contains(err.Error(), "grant it") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Package attacks_test tries to do harm through the API, as a tenant, an operator or a second control plane could, and
// checks what a member holds afterwards. Every test is an attack, or a mistake that costs as much as one.
package attacks_test

import (
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var shared = fleettest.Shared{Options: fleettest.Options{Members: 2, Bare: true}}

func TestMain(m *testing.M) { shared.Main(m) }

// TestATenantWithoutRightsIsRefused makes sure that the identity which the other attacks use has no right of its own: an
// attack that is refused for another reason proves nothing.
func TestATenantWithoutRightsIsRefused(t *testing.T) {
	fleet := shared.Start(t)
	ns, other := fleet.Namespace(t), fleet.Namespace(t)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps")

	if err := tenant.Create(t.Context(), fleettest.ConfigMap(ns, "own", nil)); err != nil {
		t.Errorf("a tenant cannot write to his own namespace: %v", err)
	}
	if err := tenant.Create(t.Context(), fleettest.ConfigMap(other, "foreign", nil)); err == nil {
		t.Error("a tenant may write to the namespace of another")
	}
	if err := tenant.Create(t.Context(), fleettest.Secret(ns, "other-kind", nil)); err == nil {
		t.Error("a tenant may write a kind that he has no right to")
	}
}

// Package attacks_test tries to do harm through the API, as a tenant, an operator or a second control plane could, and
// checks what a member holds afterwards. Every test is an attack, or a mistake that costs as much as one.
package attacks_test

import (
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// shared is the fleet of the tests that need none of their own. They run one after the other, since some change its Clusters. Tests that start
// control planes, or that wait for a namespace of theirs to go, call t.Parallel: most of their time is spent waiting.
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

package v1alpha1

import "testing"

func TestReserved(t *testing.T) {
	for namespace, want := range map[string]bool{
		"kube-system": true, "kube-public": true, "kube-node-lease": true, "kube-x": true, "karmada-system": true, "karmada-cluster": true,
		"karmada-es-eu": true, "flagship-system": true, "default": false, "shop": false, "kubernetes": false, "karmada": false, "my-kube-system": false,
	} {
		if ReservedNamespace(namespace) != want || ReservedService(namespace, "web") != want {
			t.Errorf("namespace %s is reserved: %t, want %t", namespace, !want, want)
		}
	}
	if !ReservedService("default", "kubernetes") || ReservedService("shop", "kubernetes") {
		t.Error("of Services named kubernetes, that of the API server alone is reserved")
	}
}

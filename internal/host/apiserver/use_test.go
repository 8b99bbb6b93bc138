package apiserver_test

import (
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestACustomResourceIsInUseFromItsFirstObjectOn(t *testing.T) {
	const group = "used.example.com"
	notified := make(chan struct{}, 100)
	hub.OnUse(t.Context(), func() {
		select {
		case notified <- struct{}{}:
		default: // one is enough
		}
	})
	path := served(t, group, "")
	things := schema.GroupResource{Group: group, Resource: "things"}
	if hub.InUse(t.Context(), things) {
		t.Error("there is no object yet")
	}
	call(t, http.MethodPost, path, thing(group, "v1", "a", "spec: {}")).wants(t, http.StatusCreated)
	for !hub.InUse(t.Context(), things) {
		select {
		case <-notified:
		case <-t.Context().Done():
			t.Fatal("there was no notification of the first object")
		}
	}
	call(t, http.MethodDelete, path+"/a", "").wants(t, http.StatusOK)
	if !hub.InUse(t.Context(), things) {
		t.Error("it is dropped again")
	}

	const early = "early.example.com"
	path = served(t, early, "")
	call(t, http.MethodPost, path, thing(early, "v1", "a", "spec: {}")).wants(t, http.StatusCreated)
	eventually(t, func() string { // the collector may have asked before
		if !hub.InUse(t.Context(), schema.GroupResource{Group: early, Resource: "things"}) {
			return "objects before the first call do not count"
		}
		return ""
	})
	if !hub.InUse(t.Context(), schema.GroupResource{Group: "unused.example.com", Resource: "things"}) {
		t.Error("what is not stored here may be in use")
	}
}

// TestABuiltInKindIsInUseFromItsFirstObjectOn: the storage of Services is not where their name says.
func TestABuiltInKindIsInUseFromItsFirstObjectOn(t *testing.T) {
	for _, resource := range []schema.GroupResource{
		{Resource: "namespaces"}, {Resource: "services"}, {Resource: "serviceaccounts"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}, {Group: "apiregistration.k8s.io", Resource: "apiservices"},
	} {
		if !hub.InUse(t.Context(), resource) {
			t.Errorf("%s has objects", resource)
		}
	}
	classes := schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	if hub.InUse(t.Context(), classes) {
		t.Fatal("there is no RuntimeClass yet")
	}
	notified := make(chan struct{}, 1)
	hub.OnUse(t.Context(), func() {
		select {
		case notified <- struct{}{}:
		default: // one is enough
		}
	})
	call(t, http.MethodPost, "/apis/node.k8s.io/v1/runtimeclasses", "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: used}, handler: runc}").wants(t, http.StatusCreated)
	for !hub.InUse(t.Context(), classes) {
		select {
		case <-notified:
		case <-t.Context().Done():
			t.Fatal("there was no notification of the first object")
		}
	}
}

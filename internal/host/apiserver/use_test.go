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
	for _, resource := range []schema.GroupResource{{Resource: "pods"}, {Group: "apps", Resource: "deployments"}, {Group: "unused.example.com", Resource: "things"}} {
		if !hub.InUse(t.Context(), resource) {
			t.Errorf("%s has no definition, and so may be in use", resource)
		}
	}
}

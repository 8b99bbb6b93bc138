package upgrade_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	resourcev1alpha2 "github.com/flagship-k8s/flagship/api/resource/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// ns is the namespace of testdata/objects.yaml.
const ns = "shop"

// TestUpgradeAndBack changes the version of one part after another: the control plane, the agent, then the control plane back, and the agent
// back. In between, each agent works with each control plane.
func TestUpgradeAndBack(t *testing.T) {
	f := start(t)
	f.fill(t)
	for _, step := range []struct {
		name   string
		change func(*testing.T)
	}{
		{"a-new-server-with-an-old-agent", func(t *testing.T) { f.switchHub(t, f.newer) }},
		{"a-new-server-with-a-new-agent", func(t *testing.T) { f.switchAgent(t, f.newer) }},
		{"an-old-server-with-a-new-agent", func(t *testing.T) { f.switchHub(t, f.older) }},
		{"an-old-server-with-an-old-agent", func(t *testing.T) { f.switchAgent(t, f.older) }},
	} {
		if !t.Run(step.name, func(t *testing.T) { f.step(t, step.name, step.change) }) {
			return
		}
	}
}

// step changes the version of a part: nothing is written because of it, and then everything works.
func (f *fleet) step(t *testing.T, name string, change func(*testing.T)) {
	before := f.atRest(t)
	history := f.recorded(t, "Deployment", "web", f.states)
	var counted []fleettest.Requests
	for _, m := range f.members() {
		counted = append(counted, fleettest.CountRequests(t, m.Cluster))
	}

	change(t)

	// What is new is done after everything that a start does, and is the only thing that is written.
	f.newObject(t, name)
	eventually(t, "everything is done after", f.settled)
	after, err := f.state(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expectSame(t, before, after, name)
	for i, m := range f.members() {
		sent := fleettest.CountRequests(t, m.Cluster).Since(counted[i])
		// What a member refuses is sent again.
		maps.DeleteFunc(sent, func(r fleettest.Request, _ int) bool {
			return r.Verb != "APPLY" || r.Code >= http.StatusMultipleChoices
		})
		if sent.Total() != 1 || sent.Of("configmaps").Total() != 1 {
			t.Errorf("%s was sent these, want one for the new ConfigMap:\n%s", m.Name, sent)
		}
	}
	if diff := cmp.Diff(history, f.recorded(t, "Deployment", "web", f.states)); diff != "" {
		t.Errorf("the history is another one:\n%s", diff)
	}
	f.changes(t, name)
}

// fill creates the objects and waits until nothing more is written about them.
func (f *fleet) fill(t *testing.T) {
	t.Helper()
	for _, object := range read(t, filepath.Join("testdata", "objects.yaml")) {
		eventually(t, "creating "+object.GetKind()+" "+object.GetName(), func(ctx context.Context) error {
			err := f.hub.Create(ctx, object)
			if err != nil && !meta.IsNoMatchError(err) {
				t.Fatal(err)
			}
			return err
		})
	}
	for _, m := range f.members() {
		fleettest.ExpectEventually(t, m.Cluster, fleettest.ConfigMap(ns, "settings", nil), fleettest.Exists)
	}
	for _, m := range f.members() {
		fleettest.ExpectEventually(t, m.Cluster, fleettest.Deployment(ns, "web", 0), fleettest.Available)
	}
	eventually(t, "everything is done", f.settled)
	f.changes(t, "before")
	fleettest.ExpectEventually(t, f.hub.Cluster, &resourcev1alpha2.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gpu"}}, func(c *resourcev1alpha2.ResourceClaim) error {
		if c.Status.Allocation == nil || len(c.Status.ReservedFor) != 2 {
			return fmt.Errorf("it is allocated: %t, and reserved for %d pods", c.Status.Allocation != nil, len(c.Status.ReservedFor))
		}
		return nil
	})
	fleettest.ExpectEventually(t, f.hub.Cluster, &networkingv1alpha1.MultiClusterService{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}, func(m *networkingv1alpha1.MultiClusterService) error {
		return errors.Join(fleettest.ConditionTrue(m.Status.Conditions, networkingv1alpha1.MCSServiceAppliedConditionType),
			fleettest.ConditionTrue(m.Status.Conditions, networkingv1alpha1.EndpointSliceDispatched))
	})
	// The last part of joining: the token controller of the member has filled a Secret.
	credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-cluster", Name: "pushed"}}
	fleettest.ExpectEventually(t, f.hub.Cluster, credentials, fleettest.HasRenewalToken)
	f.newObject(t, "first") // after it, all endpoints have been carried
}

func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1024); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
}

// newObject creates a ConfigMap, which the policy for all of them propagates.
func (f *fleet) newObject(t *testing.T, name string) {
	t.Helper()
	if err := f.hub.Create(t.Context(), fleettest.ConfigMap(ns, name, nil)); err != nil {
		t.Fatal(err)
	}
	for _, m := range f.members() {
		fleettest.ExpectEventually(t, m.Cluster, fleettest.ConfigMap(ns, name, nil), fleettest.Exists)
	}
	eventually(t, "everything is done after a new object", f.settled)
}

// changes has a change reach each member, and its effect come back.
func (f *fleet) changes(t *testing.T, step string) {
	t.Helper()
	fleettest.Update(t, f.hub.Cluster, fleettest.ConfigMap(ns, "settings", nil), func(c *corev1.ConfigMap) { c.Data = map[string]string{"colour": step} })
	d := fleettest.Deployment(ns, "web", 0)
	replicas := int32(0)
	fleettest.Update(t, f.hub.Cluster, d, func(d *appsv1.Deployment) {
		replicas = *d.Spec.Replicas + 3
		d.Spec.Replicas = &replicas
		d.Spec.Template.Spec.Containers[0].Image = "nginx-" + step
	})
	for _, m := range f.members() {
		fleettest.ExpectEventually(t, m.Cluster, fleettest.ConfigMap(ns, "settings", nil), func(c *corev1.ConfigMap) error {
			if c.Data["colour"] != step {
				return fmt.Errorf("the data are %v", c.Data)
			}
			return nil
		})
	}
	fleettest.ExpectEventually(t, f.hub.Cluster, d, func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != replicas || d.Status.ObservedGeneration != d.Generation {
			return fmt.Errorf("%d of %d replicas are ready", d.Status.ReadyReplicas, replicas)
		}
		return nil
	})
	for m, share := range map[*fleettest.Part]int32{f.pushed: replicas * 2 / 3, f.far: replicas / 3} {
		fleettest.ExpectEventually(t, m.Cluster, d, fleettest.Replicas(share))
	}
	f.states++
	f.recorded(t, "Deployment", "web", f.states)
	f.recorded(t, "ConfigMap", "settings", f.states)
}

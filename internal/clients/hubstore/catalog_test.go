package hubstore

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var allVerbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}

func group(name string, versions ...string) *metav1.APIGroup {
	g := &metav1.APIGroup{Name: name, PreferredVersion: metav1.GroupVersionForDiscovery{Version: versions[0]}}
	for _, v := range versions {
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{Version: v})
	}
	return g
}

func list(groupVersion string, resources ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: groupVersion, APIResources: resources}
}

func resource(name, kind string) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: allVerbs}
}

func TestCatalogChoosesKindsAndVersions(t *testing.T) {
	autoscaling := group("autoscaling", "v2", "v1")
	for reason, tc := range map[string]struct {
		groups   []*metav1.APIGroup
		lists    []*metav1.APIResourceList
		separate []schema.GroupVersion
		want     map[string]bool // watched kinds
	}{
		"the preferred version is watched": {
			groups: []*metav1.APIGroup{autoscaling},
			lists:  []*metav1.APIResourceList{list("autoscaling/v1", resource("hpas", "HPA")), list("autoscaling/v2", resource("hpas", "HPA"))},
			want:   map[string]bool{"autoscaling/v2, Kind=HPA": true},
		},
		"a kind the preferred version lacks is watched in its own": {
			groups: []*metav1.APIGroup{autoscaling},
			lists:  []*metav1.APIResourceList{list("autoscaling/v1", resource("olds", "Old")), list("autoscaling/v2", resource("hpas", "HPA"))},
			want:   map[string]bool{"autoscaling/v1, Kind=Old": true, "autoscaling/v2, Kind=HPA": true},
		},
		"a separate version is watched besides the preferred one": {
			groups:   []*metav1.APIGroup{autoscaling},
			lists:    []*metav1.APIResourceList{list("autoscaling/v1", resource("hpas", "HPA")), list("autoscaling/v2", resource("hpas", "HPA"))},
			separate: []schema.GroupVersion{{Group: "autoscaling", Version: "v1"}},
			want:     map[string]bool{"autoscaling/v1, Kind=HPA": true, "autoscaling/v2, Kind=HPA": true},
		},
		"what cannot be watched or deleted is no template": {
			groups: []*metav1.APIGroup{group("", "v1")},
			lists: []*metav1.APIResourceList{list("v1",
				metav1.APIResource{Name: "bindings", Kind: "Binding", Verbs: metav1.Verbs{"create"}},
				metav1.APIResource{Name: "componentstatuses", Kind: "ComponentStatus", Verbs: metav1.Verbs{"get", "list"}},
				resource("pods/exec", "PodExecOptions"))},
			want: map[string]bool{},
		},
		"our own groups, events, leases and requests for certificates are no templates": {
			groups: []*metav1.APIGroup{group("", "v1"), group("work.karmada.io", "v1alpha1"), group("coordination.k8s.io", "v1"), group("certificates.k8s.io", "v1")},
			lists: []*metav1.APIResourceList{
				list("v1", resource("events", "Event")), list("work.karmada.io/v1alpha1", resource("works", "Work")),
				list("coordination.k8s.io/v1", resource("leases", "Lease")),
				list("certificates.k8s.io/v1", resource("certificatesigningrequests", "CertificateSigningRequest"), resource("podcertificaterequests", "PodCertificateRequest"))},
			want: map[string]bool{},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			got := map[string]bool{}
			for gvk := range newCatalog(tc.groups, tc.lists, nil, tc.separate, nil).watched {
				got[gvk.String()] = true
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("watched kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCatalogKeepsWhatItCannotRead(t *testing.T) {
	groups := []*metav1.APIGroup{group("example.io", "v1")}
	before := newCatalog(groups, []*metav1.APIResourceList{list("example.io/v1", resource("widgets", "Widget"))}, nil, nil, nil)
	widget := schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Widget"}

	silent := newCatalog(nil, nil, map[string]bool{"example.io": true}, nil, before)
	if _, ok := silent.watched[widget]; !ok {
		t.Error("a group that does not answer lost its kinds")
	}
	gone := newCatalog(nil, nil, nil, nil, before)
	if _, ok := gone.watched[widget]; ok {
		t.Error("a group that is gone kept its kinds")
	}
}

func TestCatalogHasDefinitionsAndStatus(t *testing.T) {
	withStatus := list("example.io/v1", resource("widgets", "Widget"), resource("widgets/status", "Widget"), resource("plains", "Plain"))
	c := newCatalog([]*metav1.APIGroup{group("example.io", "v1")}, []*metav1.APIResourceList{withStatus}, nil, nil, nil)
	if !c.lists("widgets.example.io") || c.lists("gadgets.example.io") {
		t.Error("definitions are not recognised by their name")
	}
	for kindName, want := range map[string]bool{"Widget": true, "Plain": false} {
		if got := c.served[schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: kindName}].status; got != want {
			t.Errorf("%s has status: %v, want %v", kindName, got, want)
		}
	}
}

func TestObjectsInNamespacesOfKubernetesLeaveWithTheAnnotation(t *testing.T) {
	for reason, tc := range map[string]struct {
		kind, namespace, name, value string
		want                         bool
	}{
		"with the annotation":                    {"ConfigMap", "kube-system", "settings", "true", true},
		"without it":                             {"ConfigMap", "kube-system", "settings", "", false},
		"with another value":                     {"ConfigMap", "kube-system", "settings", "yes", false},
		"what every namespace has":               {"ServiceAccount", "kube-system", "default", "true", false},
		"what every API server publishes":        {"ConfigMap", "kube-system", "kube-root-ca.crt", "true", false},
		"a kind that is never a template":        {"Event", "kube-system", "a", "true", false},
		"in a namespace of the control plane":    {"Secret", "karmada-cluster", "member1", "true", false},
		"in an execution namespace":              {"Secret", "karmada-es-member1", "a", "true", false},
		"elsewhere it is one without, of course": {"ConfigMap", "shop", "settings", "", true},
	} {
		ref := Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: tc.kind}, Namespace: tc.namespace, Name: tc.name}
		object := &metav1.ObjectMeta{Annotations: map[string]string{"flagship.io/propagate": tc.value}}
		if why := Stays(ref, object); (why == "") != tc.want {
			t.Errorf("%s: it stays: %q", reason, why)
		}
	}
}

func TestExcluded(t *testing.T) {
	core := func(kind, namespace, name string) Ref {
		return Ref{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: kind}, Namespace: namespace, Name: name}
	}
	for reason, tc := range map[string]struct {
		ref  Ref
		want bool
	}{
		"an ordinary object is a template":              {core("ConfigMap", "shop", "settings"), false},
		"the hub's own service":                         {core("Service", "default", "kubernetes"), true},
		"a service of that name elsewhere":              {core("Service", "shop", "kubernetes"), false},
		"the default namespace's other services":        {core("Service", "default", "web"), false},
		"system namespaces hold no templates":           {core("ConfigMap", "kube-system", "extension-apiserver-authentication"), true},
		"execution namespaces hold no templates":        {core("Secret", "karmada-es-member1", "x"), true},
		"reserved namespaces are no templates":          {core("Namespace", "", "kube-public"), true},
		"other namespaces are":                          {core("Namespace", "", "shop"), false},
		"the CA every API server publishes":             {core("ConfigMap", "shop", "kube-root-ca.crt"), true},
		"the service account every namespace starts on": {core("ServiceAccount", "shop", "default"), true},
		"definitions of our own kinds":                  {Ref{GroupVersionKind: definitionKind.WithVersion("v1"), Name: "works.work.karmada.io"}, true},
		"definitions of kinds of this project":          {Ref{GroupVersionKind: definitionKind.WithVersion("v1"), Name: "requests.fleet.flagship.io"}, true},
		"definitions of users below karmada.io":         {Ref{GroupVersionKind: definitionKind.WithVersion("v1"), Name: "foos.example.karmada.io"}, false},
		"objects of these":                              {Ref{GroupVersionKind: schema.GroupVersionKind{Group: "example.karmada.io", Version: "v1", Kind: "Foo"}, Namespace: "shop", Name: "a"}, false},
		"definitions that every member gets anyway":     {Ref{GroupVersionKind: definitionKind.WithVersion("v1"), Name: "serviceexports.multicluster.x-k8s.io"}, true},
		"an extension API of a user is a template":      {Ref{GroupVersionKind: schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}, Name: "v1beta1.metrics.example.io"}, false},
		"other definitions are templates":               {Ref{GroupVersionKind: definitionKind.WithVersion("v1"), Name: "backups.example.io"}, false},
	} {
		if got := Excluded(tc.ref); got != tc.want {
			t.Errorf("%s: Excluded(%s) = %v, want %v", reason, tc.ref, got, tc.want)
		}
	}
}

func TestCatalogHasTheOtherVersionsOfAKind(t *testing.T) {
	c := newCatalog([]*metav1.APIGroup{group("g", "v2", "v1", "v1beta1")}, []*metav1.APIResourceList{
		list("g/v1", resource("things", "Thing")), list("g/v2", resource("things", "Thing")), list("g/v1beta1", resource("things", "Thing")),
	}, nil, []schema.GroupVersion{{Group: "g", Version: "v1beta1"}}, nil)
	thing := schema.GroupVersionKind{Group: "g", Version: "v2", Kind: "Thing"}
	if diff := cmp.Diff([]string{"v1"}, c.others[thing]); diff != "" {
		t.Errorf("other versions of a Thing, of which v1beta1 is a kind of its own (-want +got):\n%s", diff)
	}
}

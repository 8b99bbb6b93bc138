package definitions_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/api/crds"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/definitions"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	path   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	policy = "propagationpolicies.policy.karmada.io"
)

// start starts a server that has all our kinds in discovery, as if they were served at once.
func start(t *testing.T) (*fleettest.ObjectServer, clientset.Interface) {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	served := []fleettest.ServedKind{{
		GroupVersionKind: apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), Resource: "customresourcedefinitions",
	}}
	for _, d := range all {
		for _, version := range d.Spec.Versions {
			served = append(served, fleettest.ServedKind{
				GroupVersionKind: schema.GroupVersionKind{Group: d.Spec.Group, Version: version.Name, Kind: d.Spec.Names.Kind},
				Resource:         d.Spec.Names.Plural,
			})
		}
	}
	server := fleettest.StartObjectServer(t, served...)
	return server, clientset.NewForConfigOrDie(server.Config)
}

func get(t *testing.T, client clientset.Interface, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func install(t *testing.T, server *fleettest.ObjectServer) (writes []string) {
	t.Helper()
	before := len(server.Writes())
	if err := definitions.Install(t.Context(), server.Config); err != nil {
		t.Fatal(err)
	}
	return server.Writes()[before:]
}

func TestInstall(t *testing.T) {
	server, client := start(t)
	install(t, server)
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if native := d.Spec.Group == "work.karmada.io"; (server.Object(path+"/"+d.Name) == nil) != native {
			t.Errorf("%s is installed: %v; kinds that are served natively have no definition, others have", d.Name, native)
		}
	}
	if conversion := get(t, client, policy).Spec.Conversion; conversion == nil || conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Errorf("conversion is %v: without the defaults of the API server every start finds a difference", conversion)
	}
	if got := install(t, server); len(got) != 0 {
		t.Errorf("a start without changes writes %v", got)
	}

	// An older version of this program, and a user, wrote these.
	older := get(t, client, policy)
	older.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	older.Labels, older.Annotations = map[string]string{"own": "label"}, map[string]string{"own": "annotation"}
	older.Status.StoredVersions = []string{"v1alpha1"}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), older, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, want := install(t, server), []string{"PUT " + path + "/" + policy}; !slices.Equal(got, want) {
		t.Errorf("one definition is older: %v, want %v", got, want)
	}
	updated := get(t, client, policy)
	if updated.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Type != "object" {
		t.Error("the schema is still the older one")
	}
	if updated.Labels["own"] != "label" || updated.Annotations["own"] != "annotation" || updated.Annotations["controller-gen.kubebuilder.io/version"] == "" {
		t.Errorf("labels %v, annotations %v; want those of the user beside ours", updated.Labels, updated.Annotations)
	}
	if !slices.Equal(updated.Status.StoredVersions, []string{"v1alpha1"}) {
		t.Errorf("stored versions are %v: without them objects of an older version are lost", updated.Status.StoredVersions)
	}
}

func refuse(err *apierrors.StatusError) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fleettest.WriteJSON(w, int(err.ErrStatus.Code), err.ErrStatus)
	}
}

// TestTwoServersInstallTogether: servers on one etcd start at the same time.
func TestTwoServersInstallTogether(t *testing.T) {
	server, client := start(t)
	other := sync.OnceFunc(func() { // from here on the other server has created all of them
		server.Handle("POST "+path, nil)
		install(t, server)
		server.Handle("POST "+path, refuse(apierrors.NewAlreadyExists(apiextensionsv1.Resource("customresourcedefinitions"), "it")))
	})
	server.Handle("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		other()
		refuse(apierrors.NewAlreadyExists(apiextensionsv1.Resource("customresourcedefinitions"), "it"))(w, r)
	})
	install(t, server)

	changed := get(t, client, policy)
	changed.Spec.Names.ShortNames = nil
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Handle("PUT "+path+"/"+policy, func(w http.ResponseWriter, r *http.Request) {
		server.Handle("PUT "+path+"/"+policy, nil)
		refuse(apierrors.NewConflict(apiextensionsv1.Resource("customresourcedefinitions"), policy, errors.New("it has been modified")))(w, r)
	})
	install(t, server)
	if len(get(t, client, policy).Spec.Names.ShortNames) == 0 {
		t.Error("after a conflict the definition is left as it was")
	}
}

func TestInstallReportsTheDefinition(t *testing.T) {
	server, _ := start(t)
	server.Handle("GET "+path+"/"+policy, refuse(apierrors.NewInternalError(errors.New("no leader"))))
	err := definitions.Install(t.Context(), server.Config)
	if err == nil || !strings.HasPrefix(err.Error(), "installing "+policy+": ") || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("got %v", err)
	}
}

func TestInstallReturnsWhenAllKindsAreServed(t *testing.T) {
	const group = "/apis/policy.karmada.io/v1alpha1"
	server, _ := start(t)
	var answers atomic.Int32
	server.Handle("GET "+group, func(w http.ResponseWriter, r *http.Request) {
		switch answers.Add(1) {
		case 1: // created and not in discovery yet
			refuse(apierrors.NewNotFound(schema.GroupResource{}, ""))(w, r)
		case 2: // one of its kinds only
			fleettest.WriteJSON(w, http.StatusOK, metav1.APIResourceList{
				GroupVersion: "policy.karmada.io/v1alpha1", APIResources: []metav1.APIResource{{Name: "propagationpolicies", Kind: "PropagationPolicy"}},
			})
		default:
			server.Handle("GET "+group, nil)
			refuse(apierrors.NewNotFound(schema.GroupResource{}, ""))(w, r)
		}
	})
	if install(t, server); answers.Load() != 3 {
		t.Errorf("it returned after %d answers, want it to wait until every kind is in discovery", answers.Load())
	}
}

func TestInstallEndsWithTheServer(t *testing.T) {
	server, _ := start(t)
	ctx, end := context.WithCancel(t.Context())
	server.Handle("GET /apis/remedy.karmada.io/v1alpha1", func(w http.ResponseWriter, r *http.Request) {
		end()
		refuse(apierrors.NewNotFound(schema.GroupResource{}, ""))(w, r)
	})
	err := definitions.Install(ctx, server.Config)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "waiting for 1 kinds to be served") {
		t.Errorf("got %v, want the number of kinds that are missing", err)
	}
}

func TestEstablishPending(t *testing.T) {
	condition := func(kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus, reason string) apiextensionsv1.CustomResourceDefinitionCondition {
		return apiextensionsv1.CustomResourceDefinitionCondition{Type: kind, Status: status, Reason: reason}
	}
	accepted := condition(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionTrue, "NoConflicts")
	installing := condition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "Installing")
	tests := map[string]struct {
		reason     string
		conditions []apiextensionsv1.CustomResourceDefinitionCondition
		deleted    bool
		want       bool
	}{
		"Pending":       {"the server was killed before it established the kind", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, installing}, false, true},
		"New":           {"its names are not decided", nil, false, false},
		"NamesConflict": {"another definition has its names", []apiextensionsv1.CustomResourceDefinitionCondition{condition(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse, "PluralConflict"), installing}, false, false},
		"NotAccepted":   {"its names were refused, and are accepted only now", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, condition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "NotAccepted")}, false, false},
		"Established":   {"nothing is to do", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, condition(apiextensionsv1.Established, apiextensionsv1.ConditionTrue, "InitialNamesAccepted")}, false, false},
		"Deleted":       {"it goes", []apiextensionsv1.CustomResourceDefinitionCondition{accepted, installing}, true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server, client := start(t)
			d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ships.example.io"}}
			d.Status.Conditions = tc.conditions
			if tc.deleted {
				d.DeletionTimestamp = &metav1.Time{}
				d.DeletionTimestamp.Time = metav1.Now().Time
			}
			server.Add(t, path, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), d)
			if err := definitions.EstablishPending(t.Context(), server.Config); err != nil {
				t.Fatal(err)
			}
			var want []string
			if tc.want {
				want = []string{"PUT " + path + "/ships.example.io/status"}
			}
			if got := server.Writes(); !slices.Equal(got, want) {
				t.Fatalf("%s: writes are %v, want %v", tc.reason, got, want)
			}
			if tc.want {
				established := get(t, client, "ships.example.io").Status.Conditions[1]
				if established.Type != apiextensionsv1.Established || established.Status != apiextensionsv1.ConditionTrue {
					t.Errorf("the condition is %v", established)
				}
			}
		})
	}
}

func TestEstablishPendingIgnoresWhatOthersWrote(t *testing.T) {
	resource := apiextensionsv1.Resource("customresourcedefinitions")
	for name, tc := range map[string]struct {
		answer *apierrors.StatusError
		fails  bool
	}{
		"Conflict": {apierrors.NewConflict(resource, "ships.example.io", errors.New("it has been modified")), false},
		"Deleted":  {apierrors.NewNotFound(resource, "ships.example.io"), false},
		"Failure":  {apierrors.NewInternalError(errors.New("no leader")), true},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := start(t)
			d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "ships.example.io"}}
			d.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "Installing"},
			}
			server.Add(t, path, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), d)
			server.Handle("PUT "+path+"/ships.example.io/status", refuse(tc.answer))
			err := definitions.EstablishPending(t.Context(), server.Config)
			if (err != nil) != tc.fails || tc.fails && !strings.Contains(err.Error(), "establishing ships.example.io") {
				t.Errorf("got %v, want a failure: %v", err, tc.fails)
			}
		})
	}
}

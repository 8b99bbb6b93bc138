package apiserver_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// What the process around the custom resource server brings: the same authorizer and admission chain as for other kinds.
func TestCustomResourcesAreGuardedLikeOthers(t *testing.T) {
	const group = "guarded.example.com"
	path := served(t, group, "")
	ns := strings.Split(path, "/")[5]
	asJane := func(method, path, body string) answer { return call(t, method, path, body, "Impersonate-User", "jane") }
	asJane(http.MethodGet, path, "").wants(t, http.StatusForbidden)
	rbac := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ns
	call(t, http.MethodPost, rbac+"/roles", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader}, rules: [{apiGroups: ["+group+"], resources: [things], verbs: [list]}]}").wants(t, http.StatusCreated)
	call(t, http.MethodPost, rbac+"/rolebindings", "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: jane}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]}").wants(t, http.StatusCreated)
	eventually(t, func() string {
		if a := asJane(http.MethodGet, path, ""); a.code != http.StatusOK {
			return "a role does not reach the custom resource: " + a.text
		}
		return ""
	})
	asJane(http.MethodPost, path, thing(group, "v1", "hers", "a: 1")).wants(t, http.StatusForbidden)

	const policies = "/apis/admissionregistration.k8s.io/v1/"
	call(t, http.MethodPost, policies+"validatingadmissionpolicies", "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: guard}, spec: {matchConstraints: {resourceRules: [{apiGroups: ["+group+"], apiVersions: ['*'], operations: [CREATE], resources: [things]}]}, validations: [{expression: \"object.metadata.name != 'evil'\", message: no evil}]}}").wants(t, http.StatusCreated)
	call(t, http.MethodPost, policies+"validatingadmissionpolicybindings", "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: guard}, spec: {policyName: guard, validationActions: [Deny]}}").wants(t, http.StatusCreated)
	defer func() {
		for _, kind := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
			call(t, http.MethodDelete, policies+kind+"/guard", "").wants(t, http.StatusOK)
		}
	}()
	eventually(t, func() string {
		if a := call(t, http.MethodPost, path+"?dryRun=All", thing(group, "v1", "evil", "a: 1")); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.text, "no evil") {
			return "an admission policy does not see the custom resource: " + a.text
		}
		return ""
	})
	call(t, http.MethodPost, path, patched(t, thing(group, "v1", "good", "a: 1"), "{metadata: {finalizers: [example.com/keep]}}")).wants(t, http.StatusCreated)

	// A namespace that is going takes no more of them, and waits for those that have finalizers.
	call(t, http.MethodDelete, "/api/v1/namespaces/"+ns, "").wants(t, http.StatusOK)
	eventually(t, func() string {
		if a := call(t, http.MethodPost, path, thing(group, "v1", "late", "a: 1")); a.code != http.StatusForbidden || !strings.Contains(a.text, "being terminated") {
			return "a namespace that is going takes a new object: " + a.text
		}
		return ""
	})
	call(t, http.MethodPatch, path+"/good", `{"metadata":{"finalizers":null}}`, "Content-Type", mergePatch).wants(t, http.StatusOK)
}

// TestTheServersOwnClientMayDoEverything: the controllers behind definitions, and ours, talk to the server through it.
func TestTheServersOwnClientMayDoEverything(t *testing.T) {
	who, err := clients.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "the user", who.Status.UserInfo.Username, "system:apiserver")
	for name, spec := range map[string]authorizationv1.SelfSubjectAccessReviewSpec{
		"any resource": {ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*", Subresource: "*"}},
		"any path":     {NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "*", Path: "*"}},
	} {
		review, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !review.Status.Allowed {
			t.Errorf("%s: it may not: %s", name, review.Status.Reason)
		}
	}
}

// TestADefinitionIsEstablishedAtOnce: a server that takes itself for one of several waits for five seconds each time, so that
// the others receive the names. That one took long may be the machine's fault; that several did is ours.
func TestADefinitionIsEstablishedAtOnce(t *testing.T) {
	const tries, held = 5, 5 * time.Second
	for i := range tries {
		group := fmt.Sprintf("prompt%d.example.com", i)
		create(t, group, "")
		expectDefinition(t, group, "Established", "True", "InitialNamesAccepted")
		conditions, _ := call(t, http.MethodGet, definitionOf(group), "").at("status.conditions").([]any)
		since := map[any]time.Time{}
		for _, entry := range conditions {
			condition, _ := entry.(map[string]any)
			at, err := time.Parse(time.RFC3339, fmt.Sprint(condition["lastTransitionTime"]))
			if err != nil {
				t.Fatal(err)
			}
			since[condition["type"]] = at
		}
		if since["Established"].Sub(since["NamesAccepted"]) < held {
			return
		}
	}
	t.Errorf("each of %d definitions was held back for %v after its names had been accepted", tries, held)
}

// TestUndefinedKinds: every server of the chain delegates what it does not serve, and the last one answers that it does not
// exist.
func TestUndefinedKinds(t *testing.T) {
	for _, path := range []string{
		"/apis/unserved.example.com", "/apis/unserved.example.com/v1", "/apis/unserved.example.com/v1/things",
		"/apis/apps/v1/namespaces/default/things", "/apis/policy.karmada.io/v1alpha1/things", "/nothing",
	} {
		call(t, http.MethodGet, path, "").wants(t, http.StatusNotFound)
	}
}

func TestOpenAPIFollowsADefinition(t *testing.T) {
	const group = "explained.example.com"
	version := func(name, field string, served, storage bool) string {
		return fmt.Sprintf("{name: %s, served: %v, storage: %v, schema: {openAPIV3Schema: {type: object, properties: {%s: {type: string}}}}}", name, served, storage, field)
	}
	versions := func(list ...string) string { return "{spec: {versions: [" + strings.Join(list, ", ") + "]}}" }
	served(t, group, versions(version("v1", "earlier", true, true), version("v2", "other", true, false)))
	document := "/openapi/v3/apis/" + group + "/"
	says := func(path string, words ...string) {
		t.Helper()
		eventually(t, func() string {
			a := call(t, http.MethodGet, path, "")
			for _, word := range words {
				word, unwanted := strings.CutPrefix(word, "!")
				if strings.Contains(a.text, word) == unwanted {
					return fmt.Sprintf("%s has %q: %v", path, word, unwanted)
				}
			}
			return ""
		})
	}
	says(document+"v1", `"earlier"`)
	says(document+"v2", `"other"`)
	address := func() string {
		_, after, _ := strings.Cut(call(t, http.MethodGet, "/openapi/v3", "").wants(t, http.StatusOK).text, document+"v1?")
		hash, _, _ := strings.Cut(after, `"`)
		return hash
	}
	before := address()
	merge(t, definitionOf(group), versions(version("v1", "later", true, true), version("v2", "other", false, false))).wants(t, http.StatusOK)
	says(document+"v1", `"later"`, `!"earlier"`)
	says("/openapi/v3", "apis/"+group+"/v1?", "!apis/"+group+"/v2?")
	says("/openapi/v2", `"later"`, `!"earlier"`)
	eventually(t, func() string { // clients keep a document for as long as its address is the same
		if now := address(); now == before || now == "" {
			return fmt.Sprintf("the address of the document is still %q", now)
		}
		return ""
	})
	call(t, http.MethodDelete, definitionOf(group), "").wants(t, http.StatusOK)
	says("/openapi/v3", "!"+group)
	says("/openapi/v2", "!"+group)
}

// TestACustomResourceIsNotMissingAtTheStart: an early request gets an answer to retry, not that there is no such
// kind.
func TestACustomResourceIsNotMissingAtTheStart(t *testing.T) {
	port := fmt.Sprintf("%s=%s", childPort, fleettest.FreePort(t))
	dir := t.TempDir()
	running := startChild(t, dir, port)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	there, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(things(t, "early.example.com", "")), &definition.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Resource(definitionResource).Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	look := func() int {
		response, err := client.Get(config.Host + "/apis/early.example.com/v1/things")
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	eventually(t, func() string {
		if code := look(); code != http.StatusOK {
			return fmt.Sprintf("the kind is not served: %d", code)
		}
		return ""
	})
	if err := running.command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = running.command.Wait() // it was killed

	end, looked := make(chan struct{}), make(chan map[int]int)
	go func() {
		codes := map[int]int{}
		defer func() { looked <- codes }()
		for {
			codes[look()]++
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	startChild(t, dir, port)
	close(end)
	codes := <-looked
	if codes[http.StatusNotFound] > 0 {
		t.Errorf("the kind was missing: answers by code %v", codes)
	}
	if code := look(); code != http.StatusOK {
		t.Errorf("a server that says it is ready answers %d", code)
	}
}

package apiserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// direct sends requests to a server without a client that retries.
type direct struct {
	url    string
	client *http.Client
}

func (d direct) send(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/yaml")
	request.Header.Set("Accept", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	if strings.Contains(path, "watch=true") {
		line, err := bufio.NewReader(response.Body).ReadString('\n')
		return response.StatusCode, fmt.Sprint(line, err)
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, fmt.Sprint(string(text), err)
}

// paths returns the path of each resource with the verb.
func paths(t *testing.T, client kubernetes.Interface, verb string) (found []string) {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		prefix := "/apis/"
		if !strings.Contains(list.GroupVersion, "/") {
			prefix = "/api/"
		}
		for _, resource := range list.APIResources {
			if slices.Contains(resource.Verbs, verb) {
				found = append(found, prefix+list.GroupVersion+"/"+resource.Name)
			}
		}
	}
	return found
}

// TestTheFirstRequestsAfterARestart: from the moment at which /readyz succeeds, Services get their addresses and every kind is listed,
// watched and created. Before, from the moment at which the server has a connection, requests succeed or can be repeated: none is
// forbidden.
func TestTheFirstRequestsAfterARestart(t *testing.T) {
	const groups = 5
	dir, role := t.TempDir(), childRole+"=Hub"
	port := fmt.Sprintf("%s=%s", childPort, fleettest.FreePort(t))
	first := startChild(t, dir, role, port)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server := direct{config.Host, client}
	for i := range groups {
		group := fmt.Sprintf("restarted%d.example.com", i)
		if code, text := server.send(t, http.MethodPost, definitionsPath, things(t, group, "")); code != http.StatusCreated {
			t.Fatal(text)
		}
		eventually(t, func() string {
			code, text := server.send(t, http.MethodPost, "/apis/"+group+"/v1/namespaces/default/things", thing(group, "v1", "before", "a: 1"))
			if code == http.StatusCreated {
				return ""
			}
			return text
		})
	}
	clients := first.client(t, dir)
	lists, watches := paths(t, clients, "list"), paths(t, clients, "watch")
	if len(lists) < 50 || len(watches) < 50 {
		t.Fatalf("discovery has %d and %d kinds", len(lists), len(watches))
	}
	if err := first.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = first.command.Wait()

	launchChild(t, dir, role, port)
	var early sync.WaitGroup
	for _, path := range []string{"/apis/apps/v1/deployments", "/api/v1/configmaps", "/apis/work.karmada.io/v1alpha1/works", "/apis/restarted0.example.com/v1/things"} {
		early.Go(func() {
			code, text := 0, ""
			for code == 0 && t.Context().Err() == nil { // nothing listens yet
				code, text = server.send(t, http.MethodGet, path, "")
			}
			if code != http.StatusOK && code != http.StatusServiceUnavailable {
				t.Errorf("%s before the server is ready: %d %s", path, code, text)
			}
		})
	}
	defer early.Wait()
	deadline := time.After(3 * time.Minute)
	for ready := false; !ready; {
		code, text := server.send(t, http.MethodGet, "/readyz", "")
		ready = code == http.StatusOK
		select {
		case <-deadline:
			t.Fatal(text)
		default:
		}
	}

	var all sync.WaitGroup
	expects := func(method, path, body string) {
		all.Go(func() {
			if code, text := server.send(t, method, path, body); code < 200 || code > 299 || strings.Contains(text, `"type":"ERROR"`) {
				t.Errorf("%s %s: %d %s", method, path, code, text)
			}
		})
	}
	for i := range groups {
		group := fmt.Sprintf("restarted%d.example.com", i)
		expects(http.MethodPost, "/api/v1/namespaces/default/services", fmt.Sprintf(
			"{apiVersion: v1, kind: Service, metadata: {name: after-%d}, spec: {ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}}", i))
		expects(http.MethodPost, "/apis/"+group+"/v1/namespaces/default/things", thing(group, "v1", "after", "a: 1"))
	}
	for _, path := range lists {
		expects(http.MethodGet, path, "")
	}
	for _, path := range watches {
		expects(http.MethodGet, path+"?watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch="+string(metav1.ResourceVersionMatchNotOlderThan), "")
	}
	expects(http.MethodPost, "/apis/resource.k8s.io/v1alpha2/namespaces/default/resourceclaims",
		"{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClaim, metadata: {name: after}, spec: {resourceClassName: any}}")
	all.Wait()
}

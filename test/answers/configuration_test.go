package answers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// configuration returns the path of a configuration file of a kind, and what replaces it.
func configuration(t *testing.T, kind string) (path string, write func(content string)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "configuration.yaml")
	return path, func(content string) {
		t.Helper()
		next := path + ".next"
		if err := os.WriteFile(next, []byte("apiVersion: configuration.flagship.io/v1alpha1\nkind: "+kind+"\n"+content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConfigurationIsReloaded: a running server takes over a limit from its configuration file, reports a field that needs a restart, and
// goes on as before with a file that is not valid. It takes 35 s beside other tests: the file is read anew once a period.
func TestConfigurationIsReloaded(t *testing.T) {
	path, write := configuration(t, "ServerConfiguration")
	write("namespaceObjectLimit: 1000\n")
	hub := fleettest.StartHub(t, "--config", path)
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	objects := 0
	create := func() error {
		objects++
		return hub.Create(t.Context(), fleettest.ConfigMap("shop", fmt.Sprint("c", objects), nil))
	}
	for range 5 {
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	kube, err := kubernetes.NewForConfig(hub.Config)
	if err != nil {
		t.Fatal(err)
	}
	served := func(series string) bool {
		body, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics/flagship").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(body), "\n"+series+"\n")
	}
	if !served("flagship_configuration_valid 1") {
		t.Error("the file is not reported as valid")
	}

	write("namespaceObjectLimit: 5\nbrakeWindow: 1h\n")
	fleettest.Eventually(t, "the field that is read at the start only is reported", func() bool {
		return served(`flagship_configuration_restart_required{field="brakeWindow"} 1`)
	})
	if err := create(); err == nil || !strings.Contains(err.Error(), "limit of 5 objects") {
		t.Errorf("another object is answered with %v, want that the new limit refuses it", err)
	}

	write("namespaceObjectLimit: many\n")
	fleettest.Eventually(t, "the file is reported as not valid", func() bool { return served("flagship_configuration_valid 0") })
	if err := create(); err == nil || !strings.Contains(err.Error(), "limit of 5 objects") {
		t.Errorf("another object is answered with %v, want that the limit is as before", err)
	}

	write("namespaceObjectLimit: 1000\n")
	fleettest.Eventually(t, "the file is reported as valid", func() bool { return served("flagship_configuration_valid 1") })
	if err := create(); err != nil {
		t.Errorf("another object is refused at the limit of 1000: %v", err)
	}
	if served(`flagship_configuration_restart_required{field="brakeWindow"} 1`) {
		t.Error("a field that is as at the start again is reported as one that needs a restart")
	}
}

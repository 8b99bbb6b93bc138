package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// confidential is what no storage may have as it is.
const confidential = "a-confidential-value"

// encryption is an EncryptionConfiguration of an administrator, with a key named chart.
const encryption = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: chart, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
`

// TestContainers runs the entry point of the image for each pod of the chart, with its arguments, its environment and its settings: a server with
// its own etcd, then three on an etcd cluster, with the keys of the first one.
func TestContainers(t *testing.T) {
	shared := files{}
	t.Run("Single", func(t *testing.T) { runSingle(t, shared) })
	t.Run("Three", func(t *testing.T) { runThree(t, shared) })
}

// runSingle runs one server, which encrypts as a file of the chart requires, and copies its keys.
func runSingle(t *testing.T, keys files) {
	objects, err := render(t, installations()["Files"])
	if err != nil {
		t.Fatal(err)
	}
	pod, config := podOf(t, objects)
	p := newProcesses(t, pod, config, map[string]files{"files": {"encryption.yaml": []byte(encryption)}})
	address := p.serve(t)
	container := pod.Containers[0]
	expectProbes(t, container, address)
	if container.Ports[0].ContainerPort != 6443 || !strings.Contains(config, "port: 6443") {
		t.Errorf("the container has the port %d, its settings are\n%s", container.Ports[0].ContainerPort, config)
	}

	writeSecret(t, p.client(t))
	data := os.DirFS(p.dirs["data"])
	if !contains(t, data, "etcd", "k8s:enc:aescbc:v1:chart:") || contains(t, data, "etcd", confidential) {
		t.Error("the Secret is not stored as the EncryptionConfiguration requires")
	}
	for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "service-account.key", "service-account.pub", "secret-encryption.key"} {
		if keys[name], err = fs.ReadFile(data, "pki/"+name); err != nil {
			t.Fatal(err)
		}
	}
}

// runThree runs three servers, one after another, as a StatefulSet starts its pods.
func runThree(t *testing.T, keys files) {
	if len(keys) == 0 {
		t.Fatal("there are no keys of a first server")
	}
	etcd := startEtcd(t)
	i := installations()["Three"]
	server := i.values["server"].(values)
	server["etcd"] = values{"servers": etcd.endpoints, "secret": "etcd-client"}
	objects, err := render(t, i)
	if err != nil {
		t.Fatal(err)
	}
	pod, config := podOf(t, objects)
	var replicas []*processes
	var addresses []string
	for range 3 {
		p := newProcesses(t, pod, config, map[string]files{"keys": keys, "etcd-client": etcd.secret})
		p.initialize(t)
		address := p.serve(t)
		expectProbes(t, pod.Containers[0], address)
		replicas, addresses = append(replicas, p), append(addresses, address)
	}

	writeSecret(t, replicas[0].client(t))
	for n, p := range replicas {
		eventually(t, fmt.Sprintf("the server %d reads what the first one stored", n), func(ctx context.Context) error {
			secret, err := p.client(t).CoreV1().Secrets("default").Get(ctx, "stored", metav1.GetOptions{})
			if err == nil && string(secret.Data["value"]) != confidential {
				err = fmt.Errorf("it has %q", secret.Data["value"])
			}
			return err
		})
	}
	stored, err := etcd.client.Get(t.Context(), "/registry/secrets/default/stored")
	if err != nil {
		t.Fatal(err)
	}
	if len(stored.Kvs) != 1 || !bytes.HasPrefix(stored.Kvs[0].Value, []byte("k8s:enc:secretbox:")) || bytes.Contains(stored.Kvs[0].Value, []byte(confidential)) {
		t.Errorf("the Secret is stored as %v", stored.Kvs)
	}
	expectOneLeader(t, findKind(objects, "ServiceMonitor"), prometheusToken(t, replicas[0].client(t)), addresses)
}

// client is one of the administrator of a server.
func (p *processes) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(p.dirs["data"], "hub.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func writeSecret(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "stored"}, Data: map[string][]byte{"value": []byte(confidential)}}
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// contains returns whether a file in a directory has a text.
func contains(t *testing.T, all fs.FS, dir, text string) (found bool) {
	t.Helper()
	err := fs.WalkDir(all, dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(all, path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // etcd renames its files
		}
		found = found || bytes.Contains(content, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// prometheusToken is what the Secret of the ServiceMonitor has: a token of the control plane that may get the metrics, and nothing else.
func prometheusToken(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: account.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:monitoring"},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// expectOneLeader gets the metrics of all servers, as a Prometheus does that has the ServiceMonitor.
func expectOneLeader(t *testing.T, monitor *unstructured.Unstructured, token string, addresses []string) {
	t.Helper()
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	if err != nil || len(endpoints) != 1 {
		t.Fatalf("the ServiceMonitor has the endpoints %v: %v", endpoints, err)
	}
	endpoint := endpoints[0].(map[string]any)
	scheme, path := fmt.Sprint(endpoint["scheme"]), fmt.Sprint(endpoint["path"])
	eventually(t, "one server leads", func(ctx context.Context) error {
		leaders := 0
		for _, address := range addresses {
			config := &rest.Config{Host: scheme + "://" + address, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			text, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
			if err != nil {
				return fmt.Errorf("the metrics of %s: %w", address, err)
			}
			const metric = `leader_election_master_status{name="flagship"} `
			switch {
			case bytes.Contains(text, []byte("\n"+metric+"1\n")):
				leaders++
			case !bytes.Contains(text, []byte("\n"+metric+"0\n")):
				return fmt.Errorf("the metrics of %s do not state whether it leads", address)
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d servers lead", leaders)
		}
		return nil
	})
}

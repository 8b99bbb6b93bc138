package pull_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// runsInTheCluster applies the manifest of agents to the member "far", where containers are simulated, and runs two agents as the
// Deployment would: with its arguments, its Secrets and the token of its ServiceAccount.
func runsInTheCluster(t *testing.T, hub, member *fleettest.Part, arrives func(t *testing.T, name string)) {
	dir := t.TempDir()
	file := filepath.Join(dir, "bootstrap.kubeconfig")
	args := []string{"register", "far", "--bootstrap-kubeconfig", file, "--image", "example.com/flagship:v1"}
	apply := slices.Concat(args, []string{"--apply", "--cluster-kubeconfig", member.Kubeconfig})
	for _, command := range [][]string{{"token", "create", "far", "--kubeconfig", hub.Kubeconfig, "--file", file}, apply, apply} {
		if r := fleettest.Flagship(t, command...); r.Code != 0 {
			t.Fatalf("%v: %s", command, r.Stderr)
		}
	}
	printed := fleettest.Flagship(t, slices.Concat(args, []string{"--print"})...)
	for flag, reason := range map[string]string{"--share": "the objects of two control planes may have the same names", "--cluster-region=eu": "since the agents create the Cluster"} {
		if r := fleettest.Flagship(t, slices.Concat(apply, []string{flag})...); r.Code == 0 || !strings.Contains(r.Stderr, reason) {
			t.Errorf("%s is accepted, or ignored: %d %s", flag, r.Code, r.Stderr)
		}
	}
	documents := strings.Split(strings.TrimPrefix(printed.Stdout, "---\n"), "---\n")
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v\n%s%s", err, document, printed.Stderr)
		}
		if err := member.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Errorf("what is printed is not what is applied: %v", err)
		}
	}
	if len(documents) != 9 {
		t.Errorf("%d objects are printed", len(documents))
	}

	const namespace = "karmada-cluster"
	deployment := fleettest.ExpectEventually(t, member.Cluster, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flagship-agent-far"}},
		func(d *appsv1.Deployment) error {
			if d.Status.ReadyReplicas != 2 {
				return fmt.Errorf("%d of its pods are ready", d.Status.ReadyReplicas)
			}
			return nil
		})
	bootstrap := &corev1.Secret{}
	if err := member.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "flagship-agent-far-bootstrap"}, bootstrap); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), bootstrap.Data["kubeconfig"], 0o600); err != nil {
		t.Fatal(err)
	}
	var inPod []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--data-dir=") || strings.HasPrefix(arg, "--health-probe-bind-address=") {
			continue // each agent has a directory of its own, and the address is that of the pod
		}
		inPod = append(inPod, strings.Replace(arg, "/etc/flagship/", dir+"/", 1))
	}
	inPod = append(inPod, "--cluster-probe-period=1s", "--cluster-lease-duration=1s", "--cluster-kubeconfig", serviceAccount(t, member, namespace, "karmada-far"))

	agents := []*fleettest.Agent{fleettest.RunAgent(t, inPod...), fleettest.RunAgent(t, inPod...)}
	credential := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "flagship-agent-far"}}
	first := fleettest.ExpectEventually(t, member.Cluster, credential, func(s *corev1.Secret) error {
		if len(s.Data["agent.pem"]) == 0 {
			return errors.New("the agents have not stored their credential")
		}
		return nil
	})
	arrives(t, "in-the-cluster")
	for _, a := range agents {
		a.Stop(t)
	}

	// The token may have expired by then.
	if err := os.Remove(filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	again := fleettest.RunAgent(t, inPod...)
	arrives(t, "in-the-cluster-again")
	again.Stop(t)
	fleettest.ExpectEventually(t, member.Cluster, credential, func(s *corev1.Secret) error {
		if s.ResourceVersion != first.ResourceVersion {
			return errors.New("the credential was replaced")
		}
		return nil
	})
}

// serviceAccount returns a kubeconfig file with a token of a ServiceAccount.
func serviceAccount(t *testing.T, c *fleettest.Part, namespace, name string) string {
	t.Helper()
	token, err := kubernetes.NewForConfigOrDie(c.Config).CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "a"}
	config.CurrentContext = "c"
	file := filepath.Join(t.TempDir(), "account.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

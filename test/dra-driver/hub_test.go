package dradriver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1alpha2 "k8s.io/api/resource/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/controller"
)

// startLimit bounds how long a hub may take to be ready.
const startLimit = 2 * time.Minute

// client has all rights on the hub that the tests share.
var client kubernetes.Interface

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	binary := os.Getenv("FLAGSHIP_BINARY")
	if binary == "" {
		fmt.Fprintln(os.Stderr, "FLAGSHIP_BINARY is not set: make test-dra builds the binary and sets it")
		return 1
	}
	dir, err := os.MkdirTemp("", "dra-driver-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stop, err := startHub(binary, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := startDriver(ctx, filepath.Join(dir, "hub.kubeconfig")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// startHub runs the binary until it says that it is ready.
func startHub(binary, dir string) (func(), error) {
	hub := exec.Command(binary, "server", "--data-dir", dir, "--bind-address", "127.0.0.1", "--port", "0")
	log, err := os.Create(filepath.Join(dir, "hub.log"))
	if err != nil {
		return nil, err
	}
	hub.Stderr = log
	output, err := hub.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := hub.Start(); err != nil {
		return nil, fmt.Errorf("starting the hub: %w", err)
	}
	ended := make(chan struct{})
	stop := func() {
		_ = hub.Process.Signal(syscall.SIGTERM)
		<-ended
	}
	ready := make(chan bool, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if strings.Contains(lines.Text(), "is ready at") {
				ready <- true
			}
		}
		_ = hub.Wait()
		close(ready)
	}()
	select {
	case ok := <-ready:
		if ok {
			return stop, nil
		}
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the hub ended: %s", text)
	case <-time.After(startLimit):
		stop()
		return nil, errors.New("the hub was not ready in time")
	}
}

// startDriver runs the controller with the least rights it can work with, and as drivers do: in protobuf.
func startDriver(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	token, err := account(ctx)
	if err != nil {
		return err
	}
	limited := rest.AnonymousClientConfig(config)
	limited.ContentType, limited.AcceptContentTypes = config.ContentType, config.ContentType
	limited.BearerToken = token
	drivers, err := kubernetes.NewForConfig(limited)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(drivers, 0)
	loop := controller.New(ctx, driverName, driver{}, drivers, factory)
	factory.Start(ctx.Done())
	go loop.Run(2)

	class := &resourcev1alpha2.ResourceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, DriverName: driverName}
	_, err = client.ResourceV1alpha2().ResourceClasses().Create(ctx, class, metav1.CreateOptions{})
	return err
}

// account makes a service account for the driver and returns a token of it.
func account(ctx context.Context) (string, error) {
	const name = "driver"
	meta := metav1.ObjectMeta{Name: name}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	group := []string{"resource.k8s.io"}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"resourceclasses", "resourceclaims", "podschedulingcontexts"}, Verbs: []string{"list", "watch"}},
		{APIGroups: group, Resources: []string{"resourceclaims", "resourceclaims/status"}, Verbs: []string{"update"}},
	}}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	request, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

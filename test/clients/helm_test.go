package clients

import (
	"fmt"
	"testing"
	"time"

	helm3action "helm.sh/helm/v3/pkg/action"
	helm3loader "helm.sh/helm/v3/pkg/chart/loader"
	helm4action "helm.sh/helm/v4/pkg/action"
	helm4loader "helm.sh/helm/v4/pkg/chart/v2/loader"
	helm4kube "helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	chartDir = "testdata/chart"
	release  = "shop"
	// failure is how long Helm waits for an upgrade that cannot succeed, before it goes back.
	failure = 30 * time.Second
)

type values = map[string]any

// helm is one major version of Helm. Every call waits, and goes back by itself when it fails.
type helm interface {
	install(namespace string, values values) error
	upgrade(namespace string, values values, timeout time.Duration) error
	rollback(namespace string, revision int) error
	uninstall(namespace string) error
}

func TestHelm3(t *testing.T) { testHelm(t, helm3{t}) }

func TestHelm4(t *testing.T) { testHelm(t, helm4{t}) }

// testHelm fails if a call does not end by itself, or ends otherwise than in a cluster that runs the pods.
func testHelm(t *testing.T, helm helm) {
	namespace := newNamespace(t)
	if err := helm.install(namespace, values{}); err != nil {
		t.Fatalf("install: %v", err)
	}
	expectReady(t, namespace, "nginx:1.27", 4)
	if err := helm.upgrade(namespace, values{"image": "nginx:1.28", "replicas": 6}, patience); err != nil {
		t.Fatalf("upgrade: %v", err)
	}
	expectReady(t, namespace, "nginx:1.28", 6)
	if err := helm.upgrade(namespace, values{"image": "nginx:1.29", "cpu": "1000"}, failure); err == nil {
		t.Fatal("an upgrade beyond the capacity of every node succeeded")
	}
	expectReady(t, namespace, "nginx:1.28", 6)
	if err := helm.rollback(namespace, 1); err != nil {
		t.Fatalf("rollback: %v", err)
	}
	expectReady(t, namespace, "nginx:1.27", 4)
	if err := helm.uninstall(namespace); err != nil {
		t.Fatalf("uninstall: %v", err)
	}
	for _, cluster := range []string{"hub", "member1", "member2"} {
		expectGone(t, cluster, chartKinds[0], namespace, release)
	}
}

// expectReady fails unless the Deployment is complete on the hub now: Helm has waited for that.
func expectReady(t *testing.T, namespace, image string, replicas int32) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := newClient(t, "hub").Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: release}, deployment); err != nil {
		t.Fatal(err)
	}
	if actual := deployment.Spec.Template.Spec.Containers[0].Image; actual != image || deployment.Status.ReadyReplicas < replicas ||
		deployment.Status.ObservedGeneration != deployment.Generation {
		t.Fatalf("image %s, generation %d, status %+v: want %s and %d replicas", actual, deployment.Generation, deployment.Status, image, replicas)
	}
}

type helm3 struct{ t *testing.T }

func (h helm3) configuration(namespace string) *helm3action.Configuration {
	configuration := &helm3action.Configuration{}
	if err := configuration.Init(configFlags(namespace), namespace, "", func(format string, args ...any) {
		h.t.Log(fmt.Sprintf(format, args...))
	}); err != nil {
		h.t.Fatal(err)
	}
	return configuration
}

func (h helm3) install(namespace string, values values) error {
	chart, err := helm3loader.Load(chartDir)
	if err != nil {
		return err
	}
	install := helm3action.NewInstall(h.configuration(namespace))
	install.ReleaseName, install.Namespace = release, namespace
	install.Wait, install.WaitForJobs, install.Atomic, install.Timeout = true, true, true, patience
	_, err = install.RunWithContext(h.t.Context(), chart, values)
	return err
}

func (h helm3) upgrade(namespace string, values values, timeout time.Duration) error {
	chart, err := helm3loader.Load(chartDir)
	if err != nil {
		return err
	}
	upgrade := helm3action.NewUpgrade(h.configuration(namespace))
	upgrade.Namespace = namespace
	upgrade.Wait, upgrade.WaitForJobs, upgrade.Atomic, upgrade.Timeout = true, true, true, timeout
	_, err = upgrade.RunWithContext(h.t.Context(), release, chart, values)
	return err
}

func (h helm3) rollback(namespace string, revision int) error {
	rollback := helm3action.NewRollback(h.configuration(namespace))
	rollback.Version, rollback.Wait, rollback.WaitForJobs, rollback.Timeout = revision, true, true, patience
	return rollback.Run(release)
}

func (h helm3) uninstall(namespace string) error {
	uninstall := helm3action.NewUninstall(h.configuration(namespace))
	uninstall.Wait, uninstall.Timeout = true, patience
	_, err := uninstall.Run(release)
	return err
}

type helm4 struct{ t *testing.T }

func (h helm4) configuration(namespace string) *helm4action.Configuration {
	configuration := helm4action.NewConfiguration()
	if err := configuration.Init(configFlags(namespace), namespace, ""); err != nil {
		h.t.Fatal(err)
	}
	return configuration
}

func (h helm4) install(namespace string, values values) error {
	return h.create(namespace, values, func(install *helm4action.Install) {
		install.WaitStrategy, install.WaitForJobs, install.RollbackOnFailure, install.Timeout = helm4kube.StatusWatcherStrategy, true, true, patience
	})
}

// apply installs without waiting for anything but the Job, which is a hook.
func (h helm4) apply(namespace string) error {
	return h.create(namespace, nil, func(install *helm4action.Install) {
		install.WaitStrategy, install.Timeout = helm4kube.HookOnlyStrategy, patience
	})
}

func (h helm4) create(namespace string, values values, set func(*helm4action.Install)) error {
	chart, err := helm4loader.Load(chartDir)
	if err != nil {
		return err
	}
	install := helm4action.NewInstall(h.configuration(namespace))
	install.ReleaseName, install.Namespace = release, namespace
	set(install)
	_, err = install.RunWithContext(h.t.Context(), chart, values)
	return err
}

func (h helm4) upgrade(namespace string, values values, timeout time.Duration) error {
	chart, err := helm4loader.Load(chartDir)
	if err != nil {
		return err
	}
	upgrade := helm4action.NewUpgrade(h.configuration(namespace))
	upgrade.Namespace = namespace
	upgrade.WaitStrategy, upgrade.WaitForJobs, upgrade.RollbackOnFailure, upgrade.Timeout = helm4kube.StatusWatcherStrategy, true, true, timeout
	_, err = upgrade.RunWithContext(h.t.Context(), release, chart, values)
	return err
}

func (h helm4) rollback(namespace string, revision int) error {
	rollback := helm4action.NewRollback(h.configuration(namespace))
	rollback.Version, rollback.WaitStrategy, rollback.WaitForJobs, rollback.Timeout = revision, helm4kube.StatusWatcherStrategy, true, patience
	return rollback.Run(release)
}

func (h helm4) uninstall(namespace string) error {
	uninstall := helm4action.NewUninstall(h.configuration(namespace))
	uninstall.WaitStrategy, uninstall.Timeout = helm4kube.StatusWatcherStrategy, patience
	_, err := uninstall.Run(release)
	return err
}

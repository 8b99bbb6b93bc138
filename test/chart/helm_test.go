package chart

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// releaseName is that of render, too.
const releaseName = "flagship"

// helm runs the actions of Helm in a namespace of a cluster. Each action waits by its strategy.
type helm struct {
	kubeconfig, namespace string
	strategy              kube.WaitStrategy
}

func (h helm) configuration(t *testing.T) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig, *flags.Namespace = h.kubeconfig, h.namespace
	configuration := action.NewConfiguration()
	if err := configuration.Init(flags, h.namespace, ""); err != nil {
		t.Fatal(err)
	}
	return configuration
}

func (h helm) install(t *testing.T, v values) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(h.configuration(t))
	install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = releaseName, h.namespace, h.strategy, patience
	if _, err := install.RunWithContext(t.Context(), chart, v); err != nil {
		t.Fatalf("installing: %v", err)
	}
}

func (h helm) upgrade(t *testing.T, v values) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	upgrade := action.NewUpgrade(h.configuration(t))
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = h.namespace, h.strategy, patience
	if _, err := upgrade.RunWithContext(t.Context(), releaseName, chart, v); err != nil {
		t.Fatalf("upgrading: %v", err)
	}
}

func (h helm) rollback(t *testing.T, revision int) {
	t.Helper()
	rollback := action.NewRollback(h.configuration(t))
	rollback.Version, rollback.WaitStrategy, rollback.Timeout = revision, h.strategy, patience
	if err := rollback.Run(releaseName); err != nil {
		t.Fatalf("rolling back: %v", err)
	}
}

func (h helm) uninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(h.configuration(t))
	uninstall.WaitStrategy, uninstall.Timeout = h.strategy, patience
	if _, err := uninstall.Run(releaseName); err != nil {
		t.Fatalf("uninstalling: %v", err)
	}
}

package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	testfixtures "k8s.io/kubernetes/test/fixtures"
)

// kubeconfigVar names the environment variable with the kubeconfig of the hub. It is set in the processes that run one spec.
const kubeconfigVar = "FLAGSHIP_CONFORMANCE_KUBECONFIG"

// hub is the directory of the hub, with its kubeconfig and the command kubectl.
var hub string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run is kubectl when the binary is called so: some specs start kubectl, and linking its code here saves a second build.
func run(m *testing.M) int {
	if filepath.Base(os.Args[0]) == "kubectl" {
		return cli.Run(kubectl.NewDefaultKubectlCommand())
	}
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(testfixtures.GetTestFixturesFS())
	if kubeconfig := os.Getenv(kubeconfigVar); kubeconfig != "" {
		framework.TestContext.KubeConfig = kubeconfig
		framework.TestContext.KubectlPath = filepath.Join(filepath.Dir(kubeconfig), "kubectl")
		framework.AfterReadingAllFlags(&framework.TestContext)
		return m.Run()
	}
	stop, err := prepare()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	return m.Run()
}

// prepare starts the hub and puts kubectl beside its kubeconfig.
func prepare() (func(), error) {
	binary := os.Getenv("FLAGSHIP_BINARY")
	if binary == "" {
		return nil, fmt.Errorf("FLAGSHIP_BINARY is not set: make test-conformance builds the binary and sets it")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if hub, err = os.MkdirTemp("", "conformance-test-"); err != nil {
		return nil, err
	}
	if err := os.Symlink(self, filepath.Join(hub, "kubectl")); err != nil {
		return nil, err
	}
	stop, err := startHub(binary, hub)
	if err != nil {
		return nil, err
	}
	return func() {
		stop()
		_ = os.RemoveAll(hub)
	}, nil
}

package simcluster

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"strings"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/yaml"
)

// parallelism is how many pods, or nodes, are moved on at once.
const parallelism = 4

// nodeUntaint is the stage that lets pods onto a ready node, as the node lifecycle controller would.
//
//go:embed node-untaint.yaml
var nodeUntaint string

// imagePull and imageBackOff are the stages of a pod whose image cannot be pulled.
var (
	//go:embed pod-image-pull.yaml
	imagePull string
	//go:embed pod-image-backoff.yaml
	imageBackOff string
	// imageName is what the name of an image consists of.
	imageName = regexp.MustCompile(`^[A-Za-z0-9._/:@-]+$`)
)

// failing returns an expression for the images that cannot be pulled: some by name, and all of a registry whose name ends in .invalid,
// which no name server resolves (RFC 6761). It has no backslash, which would have to be escaped twice.
func failing(images []string) (string, error) {
	expression := "^[a-z0-9.-]+[.]invalid(:[0-9]+)?/"
	for _, image := range images {
		if !imageName.MatchString(image) {
			return "", fmt.Errorf("%q is not the name of an image", image)
		}
		expression += "|^" + strings.ReplaceAll(image, ".", "[.]") + "$"
	}
	return expression, nil
}

// startKubelets runs the simulation of every node's kubelet until the context is done. Nodes send no heartbeats and hold no
// leases: nothing here reads them, and a simulation that waits for its own lease may wait for ever.
func startKubelets(ctx context.Context, client kubernetes.Interface, failingImages []string) error {
	images, err := failing(failingImages)
	if err != nil {
		return err
	}
	named := func(stage string) string { return strings.ReplaceAll(stage, "FAILING_IMAGES", images) }
	stages, err := stagesByKind(fast.DefaultNodeInit, nodeUntaint,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete, named(imagePull), named(imageBackOff))
	if err != nil {
		return err
	}
	c, err := controllers.NewController(controllers.Config{
		TypedClient:               client,
		ManageAllNodes:            true,
		CIDR:                      defaultPodCIDR,
		NodeIP:                    "172.16.255.1",
		LocalStages:               stages,
		PodPlayStageParallelism:   parallelism,
		NodePlayStageParallelism:  parallelism,
		PodsOnNodeSyncParallelism: parallelism,
		ID:                        "simulated-kubelets",
	})
	if err != nil {
		return fmt.Errorf("making the simulated kubelets: %w", err)
	}
	ctx = kwoklog.NewContext(ctx, kwoklog.NewLogger(os.Stderr, kwoklog.LevelWarn))
	if err := c.Start(ctx); err != nil {
		return fmt.Errorf("starting the simulated kubelets: %w", err)
	}
	return nil
}

// stagesByKind reads Stage manifests: what happens to an object in a certain state.
func stagesByKind(manifests ...string) (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	out := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, manifest := range manifests {
		var stage v1alpha1.Stage
		if err := yaml.UnmarshalStrict([]byte(manifest), &stage); err != nil {
			return nil, fmt.Errorf("reading a stage: %w", err)
		}
		v1alpha1.SetObjectDefaults_Stage(&stage)
		converted, err := internalversion.ConvertToInternalStage(&stage)
		if err != nil {
			return nil, fmt.Errorf("reading stage %s: %w", stage.Name, err)
		}
		out[converted.Spec.ResourceRef] = append(out[converted.Spec.ResourceRef], converted)
	}
	return out, nil
}

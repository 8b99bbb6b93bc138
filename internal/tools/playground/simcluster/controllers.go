package simcluster

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// autoscalerPeriod is how often metrics are compared with an autoscaler's targets: they are computed and cost nothing.
const autoscalerPeriod = 2 * time.Second

// quotaPeriod is how often the usage of quotas is computed anew (five minutes by default). The controller computes it at a deletion
// too, but drops the result if its cache of quotas does not have the usage before the deletion yet.
const quotaPeriod = 10 * time.Second

// keyFiles are the files of the API server that controllers need.
type keyFiles struct {
	authority, signingKey string
}

// baseControllers are those that even a cluster without workloads needs for deletions to end and for service
// accounts to have tokens.
func baseControllers() []string {
	return []string{
		names.NamespaceController,
		names.GarbageCollectorController,
		names.ServiceAccountController,
		names.ServiceAccountTokenController,
		names.ClusterRoleAggregationController,
	}
}

// workloadControllers are what makes workloads, Services and volumes behave. Left out is what manages nodes (a simulated
// kubelet does not fail on its own, and one that pauses with its process must not lose its pods for that), what needs a
// cloud or a storage driver (attaching and expanding volumes), and certificates for kubelets.
func workloadControllers() []string {
	return []string{
		names.DeploymentController,
		names.ReplicaSetController,
		names.ReplicationControllerController,
		names.StatefulSetController,
		names.DaemonSetController,
		names.JobController,
		names.CronJobController,
		names.TTLAfterFinishedController,
		names.DisruptionController,
		names.PodGarbageCollectorController,
		names.EndpointsController,
		names.EndpointSliceController,
		names.EndpointSliceMirroringController,
		names.RootCACertificatePublisherController,
		names.ResourceQuotaController,
		names.PersistentVolumeBinderController,
		names.PersistentVolumeClaimProtectionController,
		names.PersistentVolumeProtectionController,
		names.EphemeralVolumeController,
		names.ServiceCIDRController,
		names.ResourceClaimController,
	}
}

// startControllers runs kube-controller-manager's controllers in this process until the context is done.
func startControllers(ctx context.Context, group *errgroup.Group, client *rest.Config, files keyFiles, c Config) error {
	enabled := baseControllers()
	if !c.Bare {
		enabled = append(enabled, workloadControllers()...)
		if c.RuntimeConfig["autoscaling/v2"] != "false" { // the version in which it reads autoscalers
			enabled = append(enabled, names.HorizontalPodAutoscalerController)
		}
	}
	completed, err := controllerConfig(ctx, client, files, enabled)
	if err != nil {
		return fmt.Errorf("configuring the controllers: %w", err)
	}
	group.Go(func() error {
		if err := app.Run(ctx, completed); err != nil && ctx.Err() == nil {
			return fmt.Errorf("running the controllers: %w", err)
		}
		return nil
	})
	return nil
}

func controllerConfig(ctx context.Context, client *rest.Config, files keyFiles, enabled []string) (*config.CompletedConfig, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	o.Generic.Controllers = enabled
	o.Generic.LeaderElection.LeaderElect = false
	o.SecureServing.BindPort = 0
	o.HPAController.HorizontalPodAutoscalerSyncPeriod.Duration = autoscalerPeriod
	o.ResourceQuotaController.ResourceQuotaSyncPeriod.Duration = quotaPeriod
	o.SAController.RootCAFile = files.authority
	o.SAController.ServiceAccountKeyFile = files.signingKey

	clientset, err := kubernetes.NewForConfig(client)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	c := &config.Config{
		Client:                   clientset,
		Kubeconfig:               client,
		EventBroadcaster:         broadcaster,
		EventRecorder:            broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: options.KubeControllerManagerUserAgent}),
		ComponentGlobalsRegistry: o.ComponentGlobalsRegistry,
	}
	if err := o.ApplyTo(c, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()); err != nil {
		return nil, err
	}
	c.ControllerShutdownTimeout = stopPatience
	return c.Complete(), nil
}

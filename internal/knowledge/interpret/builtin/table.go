package builtin

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/aggregate"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/dependencies"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/retain"
)

// Layer is the last layer of a chain: it has operations for every kind.
type Layer struct {
	kinds map[schema.GroupVersionKind]*interpret.Operations
	other *interpret.Operations
}

var _ interpret.Layer = (*Layer)(nil)

// New returns the built-in layer. The clock dates the conditions that aggregation sets on templates.
func New(clk clock.PassiveClock) *Layer {
	a := aggregate.Aggregation{Clock: clk}
	l := &Layer{kinds: podKinds(a), other: &interpret.Operations{Health: healthOfOther}}
	maps.Copy(l.kinds, otherKinds(a))
	complete(l.other)
	for _, operations := range l.kinds {
		complete(operations)
	}
	return l
}

// Lookup implements [interpret.Layer]; it never returns nil.
func (l *Layer) Lookup(kind schema.GroupVersionKind) *interpret.Operations {
	if operations, ok := l.kinds[kind]; ok {
		return operations
	}
	return l.other
}

// complete fills in the operations that hold for any kind.
func complete(operations *interpret.Operations) {
	if operations.Reflect == nil {
		operations.Reflect = reflectWhole
	}
	if operations.Health == nil {
		operations.Health = judge(healthByConvention)
	}
	if operations.Prune == nil {
		operations.Prune = retain.PruneServerSet
	}
}

// podKinds are the kinds that are a pod or carry a pod template.
func podKinds(a aggregate.Aggregation) map[schema.GroupVersionKind]*interpret.Operations {
	return map[schema.GroupVersionKind]*interpret.Operations{
		{Group: "apps", Version: "v1", Kind: "Deployment"}: {
			Replicas: templateReplicas, Revise: reviseField("replicas"),
			Reflect: reflectDeployment, Health: judge(healthOfRollout), Aggregate: a.Deployment,
			Prune: retain.Prune(retain.PruneDeployment), Retain: retain.Retain(retain.Replicas), Dependencies: dependencies.Template,
		},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}: {
			Replicas: templateReplicas, Revise: reviseField("replicas"),
			Reflect: reflectCounters(false, "observedGeneration", "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas"),
			Health:  judge(healthOfReplicaSet), Aggregate: a.ReplicaSet,
			Prune:        retain.Prune(retain.PruneReplicaSet),
			Dependencies: dependencies.Template,
		},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}: {
			Replicas: namedReplicas, Revise: reviseField("replicas"),
			Reflect: reflectCounters(true, "observedGeneration", "replicas", "readyReplicas", "currentReplicas", "updatedReplicas",
				"availableReplicas", "currentRevision", "updateRevision"),
			Health: judge(healthOfRollout), Aggregate: a.StatefulSet,
			Dependencies: dependencies.StatefulSet,
		},
		{Group: "apps", Version: "v1", Kind: "DaemonSet"}: {
			Reflect: reflectCounters(false, "observedGeneration", "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
				"numberReady", "updatedNumberScheduled", "numberAvailable", "numberUnavailable"),
			Health: judge(healthOfDaemonSet), Aggregate: a.DaemonSet,
			Prune:        retain.Prune(retain.PruneDaemonSet),
			Dependencies: dependencies.Template,
		},
		{Group: "batch", Version: "v1", Kind: "Job"}: {
			Replicas: jobReplicas, Revise: reviseField("parallelism"),
			Reflect: reflectFields("active", "ready", "terminating", "succeeded", "failed", "conditions", "startTime", "completionTime", "completedIndexes", "failedIndexes"),
			Health:  judge(healthOfJob), Finished: when(jobFinished), Aggregate: a.Job,
			Prune: retain.Prune(retain.PruneJob), Retain: retain.Retain(retain.Job), Dependencies: dependencies.Template,
		},
		{Group: "batch", Version: "v1", Kind: "CronJob"}: {
			Health: judge(healthOfCronJob), Aggregate: a.CronJob, Dependencies: dependencies.CronJob,
		},
		{Version: "v1", Kind: "Pod"}: {
			Replicas: podReplicas, Health: judge(healthOfPod), Finished: when(podFinished), Aggregate: a.Pod,
			Retain: retain.Retain(retain.Pod), Dependencies: dependencies.Pod,
		},
	}
}

func otherKinds(a aggregate.Aggregation) map[schema.GroupVersionKind]*interpret.Operations {
	autoscaler := &interpret.Operations{
		Reflect: reflectFields("currentReplicas", "desiredReplicas"), Health: judge(healthOfAutoscaler), Aggregate: a.Autoscaler,
		Prune: retain.Prune(retain.PruneAutoscaler),
	}
	injected := &interpret.Operations{Prune: retain.Prune(retain.PruneAuthority)}
	serviceExport := &interpret.Operations{Aggregate: a.ServiceExport}
	serviceImport := &interpret.Operations{Dependencies: dependencies.ServiceImport}
	return map[schema.GroupVersionKind]*interpret.Operations{
		{Version: "v1", Kind: "Service"}: {
			Reflect: reflectService, Health: judge(healthOfService), Aggregate: a.Service,
			Prune: retain.Prune(retain.PruneService), Retain: retain.Retain(retain.Service),
		},
		{Version: "v1", Kind: "ServiceAccount"}: {
			Health: judge(alwaysHealthy), Prune: retain.Prune(retain.PruneServiceAccount), Retain: retain.Retain(retain.ServiceAccount),
		},
		{Version: "v1", Kind: "Secret"}: {
			Health: judge(alwaysHealthy), Prune: retain.Prune(retain.PruneSecret), Retain: retain.Retain(retain.Secret),
		},
		{Version: "v1", Kind: "ConfigMap"}: {Health: judge(alwaysHealthy), Prune: retain.Prune(retain.PruneTrustBundle)},
		{Version: "v1", Kind: "PersistentVolumeClaim"}: {
			Health: judge(phaseIs("Bound")), Aggregate: a.Claim,
			Prune: retain.Prune(retain.PruneClaim), Retain: retain.Retain(retain.Claim),
		},
		{Version: "v1", Kind: "PersistentVolume"}: {
			Health: judge(phaseIs("Available", "Bound", "Released")), Aggregate: a.Volume,
			Prune: retain.Prune(retain.PruneVolume), Retain: retain.Retain(retain.Volume),
		},
		{Version: "v1", Kind: "Namespace"}: {Health: judge(healthOfNamespace)},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}: {
			Health: judge(hasAddress), Aggregate: a.Ingress, Dependencies: dependencies.Ingress,
		},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}: {
			Reflect: reflectFields("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed", "disruptedPods"),
			Health:  judge(healthOfBudget), Aggregate: a.Budget,
		},
		{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}:       autoscaler,
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}:       autoscaler,
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceExport"}: serviceExport,
		{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"}:  serviceExport,
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceImport"}: serviceImport,
		{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceImport"}:  serviceImport,
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}: {
			Health: judge(healthOfDefinition), Aggregate: a.Definition, Prune: retain.Prune(retain.PruneAuthority),
		},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}: injected,
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"}:   injected,
		{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}:                           injected,
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}:                       {Prune: retain.Prune(retain.PruneClusterRole)},
	}
}

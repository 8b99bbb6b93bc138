package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Layer is the built-in knowledge, the last layer of a chain: it has an answer
// for every kind.
type Layer struct {
	kinds map[schema.GroupVersionKind]*interpret.Operations
	other *interpret.Operations
}

var _ interpret.Layer = (*Layer)(nil)

// New returns the built-in layer. The clock dates the conditions that
// aggregation sets on templates.
func New(clk clock.PassiveClock) *Layer {
	l := &Layer{
		kinds: kinds(aggregation{clock: clk}),
		other: &interpret.Operations{},
	}
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

// complete fills in the answers that hold for any kind.
func complete(operations *interpret.Operations) {
	if operations.Reflect == nil {
		operations.Reflect = reflectWhole
	}
	if operations.Health == nil {
		operations.Health = judge(healthByConvention)
	}
	if operations.Prune == nil {
		operations.Prune = pruneServerSet
	}
}

func kinds(a aggregation) map[schema.GroupVersionKind]*interpret.Operations {
	table := map[schema.GroupVersionKind]*interpret.Operations{}
	for gvk, operations := range podKinds(a) {
		table[gvk] = operations
	}
	for gvk, operations := range otherKinds(a) {
		table[gvk] = operations
	}
	return table
}

// podKinds are the kinds that are a pod or carry a pod template.
func podKinds(a aggregation) map[schema.GroupVersionKind]*interpret.Operations {
	return map[schema.GroupVersionKind]*interpret.Operations{
		{Group: "apps", Version: "v1", Kind: "Deployment"}: {
			Replicas: templateReplicas, Revise: reviseField("replicas"),
			Reflect: reflectDeployment, Health: judge(healthOfRollout), Aggregate: a.deployment,
			Prune: prune(pruneDeployment), Retain: retain(retainReplicas), Dependencies: templateDependencies,
		},
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}: {
			Replicas: templateReplicas, Revise: reviseField("replicas"),
			Reflect: reflectReplicaSet, Health: judge(healthOfReplicaSet), Aggregate: a.replicaSet,
			Dependencies: templateDependencies,
		},
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}: {
			Replicas: templateReplicas, Revise: reviseField("replicas"),
			Reflect: reflectStatefulSet, Health: judge(healthOfRollout), Aggregate: a.statefulSet,
			Dependencies: statefulSetDependencies,
		},
		{Group: "apps", Version: "v1", Kind: "DaemonSet"}: {
			Reflect: reflectDaemonSet, Health: judge(healthOfDaemonSet), Aggregate: a.daemonSet,
			Dependencies: templateDependencies,
		},
		{Group: "batch", Version: "v1", Kind: "Job"}: {
			Replicas: jobReplicas, Revise: reviseField("parallelism"),
			Reflect: reflectJob, Health: judge(healthOfJob), Aggregate: a.job,
			Prune: prune(pruneJob), Retain: retain(retainJob), Dependencies: templateDependencies,
		},
		{Group: "batch", Version: "v1", Kind: "CronJob"}: {
			Health: judge(healthOfCronJob), Aggregate: a.cronJob, Dependencies: cronJobDependencies,
		},
		{Version: "v1", Kind: "Pod"}: {
			Replicas: podReplicas, Health: judge(healthOfPod), Aggregate: a.pod,
			Retain: retain(retainPod), Dependencies: podDependencies,
		},
	}
}

func otherKinds(a aggregation) map[schema.GroupVersionKind]*interpret.Operations {
	autoscaler := &interpret.Operations{
		Reflect: reflectAutoscaler, Health: judge(healthOfAutoscaler), Aggregate: a.autoscaler,
	}
	serviceExport := &interpret.Operations{Aggregate: a.serviceExport}
	serviceImport := &interpret.Operations{Dependencies: serviceImportDependencies}
	return map[schema.GroupVersionKind]*interpret.Operations{
		{Version: "v1", Kind: "Service"}: {
			Reflect: reflectService, Health: judge(healthOfService), Aggregate: a.service,
			Prune: prune(pruneService), Retain: retain(retainService),
		},
		{Version: "v1", Kind: "ServiceAccount"}: {
			Health: judge(alwaysHealthy), Prune: prune(pruneServiceAccount), Retain: retain(retainServiceAccount),
		},
		{Version: "v1", Kind: "Secret"}: {
			Health: judge(alwaysHealthy), Prune: prune(pruneSecret), Retain: retain(retainSecret),
		},
		{Version: "v1", Kind: "ConfigMap"}: {Health: judge(alwaysHealthy)},
		{Version: "v1", Kind: "PersistentVolumeClaim"}: {
			Health: judge(healthOfClaim), Aggregate: a.claim,
			Prune: prune(pruneClaim), Retain: retain(retainClaim),
		},
		{Version: "v1", Kind: "PersistentVolume"}: {
			Health: judge(healthOfVolume), Aggregate: a.volume, Retain: retain(retainVolume),
		},
		{Version: "v1", Kind: "Namespace"}: {Health: judge(healthOfNamespace)},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"}: {
			Health: judge(healthOfIngress), Aggregate: a.ingress, Dependencies: ingressDependencies,
		},
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}: {
			Reflect: reflectBudget, Health: judge(healthOfBudget), Aggregate: a.budget,
		},
		{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}:       autoscaler,
		{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}:       autoscaler,
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceExport"}: serviceExport,
		{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceExport"}:  serviceExport,
		{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Kind: "ServiceImport"}: serviceImport,
		{Group: "multicluster.x-k8s.io", Version: "v1beta1", Kind: "ServiceImport"}:  serviceImport,
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}: {
			Health: judge(healthOfDefinition), Aggregate: a.definition,
		},
	}
}

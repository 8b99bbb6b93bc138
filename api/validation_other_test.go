package api_test

import (
	"testing"
)

func TestWorkAcceptsAnyObject(t *testing.T) {
	testAdmissions(t, "Work", map[string]admission{
		"an object of any shape": {object: `
kind: Work
spec:
  workload:
    manifests:
    - {apiVersion: example.com/v1, kind: Anything, metadata: {name: a, unheardOf: true}, spec: {deep: [{er: 1}]}, data: null}
    - {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {a: b}}
status:
  manifestStatuses:
  - identifier: {ordinal: 0, group: example.com, version: v1, kind: Anything, resource: anythings, name: a}
    status: {whatever: {it: says}}
    health: Healthy`},
		"health is one of three words": {
			object: "kind: Work\nspec: {}\nstatus: {manifestStatuses: [{identifier: {ordinal: 0, version: v1, kind: A, resource: '', name: a}, health: Fine}]}",
			want:   "Unsupported value"},
		"a condition comes once": {object: `
kind: Work
spec: {}
status:
  conditions:
  - {type: Applied, status: "True", reason: AppliedSuccessful, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Applied, status: "False", reason: AppliedFailed, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`,
			want: "Duplicate value"},
	})
}

func TestBindingRules(t *testing.T) {
	binding := func(spec string) string {
		return "kind: ResourceBinding\nspec:\n  resource: {apiVersion: apps/v1, kind: Deployment, name: a}\n  " + spec
	}
	testAdmissions(t, "ResourceBinding", map[string]admission{
		"a template is enough": {object: binding("")},
		"a placement and a result": {object: binding(
			"placement: {clusterAffinity: {clusterNames: [a]}}\n  clusters: [{name: a, replicas: 2}]\n  replicaRequirements: {resourceRequest: {cpu: 100m}}")},
		"suspension in three ways": {object: binding("suspension: {scheduling: true, dispatchingOnClusters: {clusterNames: [a]}}")},
		"suspension in two ways at once": {
			object: binding("suspension: {dispatching: true, dispatchingOnClusters: {clusterNames: [a]}}"), want: "mutually exclusive"},
		"a reason is one word": {
			object: binding("gracefulEvictionTasks: [{fromCluster: a, producer: p, reason: 'two words'}]"), want: "should match"},
	})
}

func TestNetworkingRules(t *testing.T) {
	service := func(spec string) string { return "kind: MultiClusterService\nspec: {" + spec + "}" }
	testAdmissions(t, "MultiClusterService", map[string]admission{
		"between clusters":                {object: service("types: [CrossCluster], ports: [{port: 80}], providerClusters: [{name: a}], consumerClusters: [{name: b}]")},
		"what clients write for no range": {object: service("types: [CrossCluster], range: {}")},
		"no type":                         {object: service("types: []"), want: "exactly one type"},
		"two types":                       {object: service("types: [CrossCluster, LoadBalancer]"), want: "exactly one type"},
		"an unknown type":                 {object: service("types: [NodePort]"), want: "type must be"},
		"a type is for ever": {
			object: service("types: [LoadBalancer]"), old: service("types: [CrossCluster]"), want: "types is immutable"},
		"several named ports":    {object: service("types: [CrossCluster], ports: [{name: a, port: 80}, {name: b, port: 81}]")},
		"several nameless ports": {object: service("types: [CrossCluster], ports: [{port: 80}, {port: 81}]"), want: "name is needed"},
		"ports of one name":      {object: service("types: [CrossCluster], ports: [{name: a, port: 80}, {name: a, port: 81}]"), want: "must be unique"},
		"a port is in range":     {object: service("types: [CrossCluster], ports: [{port: 65536}]"), want: "between 1 and 65535"},
		"a cluster has a name":   {object: service("types: [CrossCluster], providerClusters: [{name: ''}]"), want: "1 to 48 characters"},
		"a healthy port has no error": {object: service("types: [LoadBalancer]") +
			"\nstatus: {loadBalancer: {ingress: [{ip: 10.0.0.1, ports: [{port: 80, protocol: TCP}]}]}}"},
	})
	testAdmissions(t, "ServiceImport", map[string]admission{
		"one address":               {object: "kind: ServiceImport\nspec: {type: ClusterSetIP, ports: [{port: 80}], ips: [10.0.0.1]}"},
		"an address of each family": {object: "kind: ServiceImport\nspec: {type: ClusterSetIP, ports: [], ips: [10.0.0.1, 'fd00::1'], ipFamilies: [IPv4, IPv6]}"},
		"three addresses":           {object: "kind: ServiceImport\nspec: {type: ClusterSetIP, ports: [], ips: [10.0.0.1, 10.0.0.2, 10.0.0.3]}", want: "at most 2 items"},
	})
}

func TestAutoscalingRules(t *testing.T) {
	scaler := func(spec string) string {
		return "kind: FederatedHPA\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}, " + spec + "}"
	}
	testAdmissions(t, "FederatedHPA", map[string]admission{
		"bounds":                 {object: scaler("minReplicas: 2, maxReplicas: 2")},
		"no lower bound":         {object: scaler("maxReplicas: 2")},
		"a lower bound too high": {object: scaler("minReplicas: 3, maxReplicas: 2"), want: "not greater than maxReplicas"},
		"a lower bound too low":  {object: scaler("minReplicas: 0, maxReplicas: 2"), want: "at least 1"},
		"an upper bound too low": {object: scaler("maxReplicas: 0"), want: "maxReplicas must be at least 1"},
	})
	cron := func(rules string) string {
		return "kind: CronFederatedHPA\nspec: {scaleTargetRef: {kind: Deployment, name: a}, rules: [" + rules + "]}"
	}
	testAdmissions(t, "CronFederatedHPA", map[string]admission{
		"morning and evening": {object: cron("{name: up, schedule: 0 9 * * *, targetReplicas: 5}, {name: down, schedule: 0 18 * * *, targetReplicas: 0}")},
		"bounds":              {object: cron("{name: a, schedule: 0 9 * * *, targetMinReplicas: 2, targetMaxReplicas: 4}")},
		"rules of one name":   {object: cron("{name: a, schedule: 0 9 * * *, targetReplicas: 5}, {name: a, schedule: 0 8 * * *, targetReplicas: 5}"), want: "name must be unique"},
		"no target":           {object: cron("{name: a, schedule: 0 9 * * *}"), want: "is needed"},
		"no time":             {object: cron("{name: a, schedule: '', targetReplicas: 5}"), want: "schedule must not be empty"},
		"bounds that cross":   {object: cron("{name: a, schedule: 0 9 * * *, targetMinReplicas: 5, targetMaxReplicas: 4}"), want: "must not be greater than targetMaxReplicas"},
		"fewer than none":     {object: cron("{name: a, schedule: 0 9 * * *, targetReplicas: -1}"), want: "must not be negative"},
		"a long memory":       {object: cron("{name: a, schedule: 0 9 * * *, targetReplicas: 1, failedHistoryLimit: 33}"), want: "less than or equal to 32"},
	})
}

func TestConfigRules(t *testing.T) {
	customization := func(kind string) string {
		return "kind: ResourceInterpreterCustomization\nspec: {target: {apiVersion: example.com/v1, kind: " + kind + "}, customizations: {retention: {luaScript: x}}}"
	}
	testAdmissions(t, "ResourceInterpreterCustomization", map[string]admission{
		"a script":             {object: customization("A"), old: customization("A")},
		"a target is for ever": {object: customization("A"), old: customization("B"), want: "target is immutable"},
	})
	hook := func(client, more string) string {
		return "{name: a.example.com, clientConfig: {" + client + "}, interpreterContextVersions: [v1alpha1]" + more + "}"
	}
	hooks := func(list string) string {
		return "kind: ResourceInterpreterWebhookConfiguration\nwebhooks: [" + list + "]"
	}
	service := "service: {namespace: a, name: b}"
	testAdmissions(t, "ResourceInterpreterWebhookConfiguration", map[string]admission{
		"a service":         {object: hooks(hook(service, ", timeoutSeconds: 30, rules: [{operations: ['*'], apiGroups: [a], apiVersions: [v1], kinds: [K]}]"))},
		"a url":             {object: hooks(hook("url: 'https://a.example.com'", ""))},
		"an insecure url":   {object: hooks(hook("url: 'http://a.example.com'", "")), want: "must begin with https://"},
		"nowhere":           {object: hooks(hook("", "")), want: "exactly one of url and service"},
		"two places":        {object: hooks(hook("url: 'https://a.example.com', "+service, "")), want: "exactly one of url and service"},
		"a long wait":       {object: hooks(hook(service, ", timeoutSeconds: 31")), want: "between 1 and 30"},
		"hooks of one name": {object: hooks(hook(service, "") + ", " + hook(service, "")), want: "name must be unique"},
		"no version": {
			object: hooks("{name: a, clientConfig: {" + service + "}, interpreterContextVersions: []}"), want: "at least one version"},
	})
}

func TestOperationsRules(t *testing.T) {
	testAdmissions(t, "WorkloadRebalancer", map[string]admission{
		"a workload":       {object: "kind: WorkloadRebalancer\nspec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: a, namespace: b}], ttlSecondsAfterFinished: 0}"},
		"no workload":      {object: "kind: WorkloadRebalancer\nspec: {workloads: []}", want: "at least 1 items"},
		"kept for no time": {object: "kind: WorkloadRebalancer\nspec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: a}], ttlSecondsAfterFinished: -1}", want: "must not be negative"},
	})
	testAdmissions(t, "Remedy", map[string]admission{
		"traffic away from a broken cluster": {object: `
kind: Remedy
spec:
  clusterAffinity: {clusterNames: [a]}
  decisionMatches: [{clusterConditionMatch: {conditionType: ServiceDomainNameResolutionReady, operator: Equal, conditionStatus: "False"}}]
  actions: [TrafficControl]`},
		"an unknown comparison": {
			object: "kind: Remedy\nspec: {decisionMatches: [{clusterConditionMatch: {conditionType: a, operator: Is, conditionStatus: b}}]}", want: "Unsupported value"},
	})
	testAdmissions(t, "ResourceRegistry", map[string]admission{
		"pods of some clusters": {object: "kind: ResourceRegistry\nspec: {targetCluster: {clusterNames: [a]}, resourceSelectors: [{apiVersion: v1, kind: Pod, namespace: shop}]}"},
		"no kind": {
			object: "kind: ResourceRegistry\nspec: {targetCluster: {}, resourceSelectors: [{apiVersion: v1, kind: \"\"}]}", want: "at least 1 chars"},
		"a store that nothing writes to": {
			object: "kind: ResourceRegistry\nspec: {targetCluster: {}, resourceSelectors: [], backendStore: {openSearch: {addresses: [a]}}}", want: "remove spec.backendStore"},
	})
}

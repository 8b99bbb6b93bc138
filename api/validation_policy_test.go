package api_test

import (
	"strings"
	"testing"
)

// policy is a PropagationPolicy with the given lines of spec beside a selector.
func policy(lines ...string) string {
	return "kind: PropagationPolicy\nspec:\n  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\n  " + strings.Join(lines, "\n  ")
}

func TestPropagationPolicyRules(t *testing.T) {
	testAdmissions(t, "PropagationPolicy", map[string]admission{
		"a selector is enough": {object: policy()},
		"a selector is needed": {
			object: "kind: PropagationPolicy\nspec: {resourceSelectors: []}", want: "should have at least 1 items"},

		"Always takes named objects": {
			object: "kind: PropagationPolicy\nspec: {preemption: Always, resourceSelectors: [{apiVersion: v1, kind: Secret, name: a}]}"},
		"Always needs a name in every selector": {
			object: "kind: PropagationPolicy\nspec: {preemption: Always, resourceSelectors: [{apiVersion: v1, kind: Secret, name: a}, {apiVersion: v1, kind: Secret}]}",
			want:   "needs a name in every resource selector"},
		"preemption is one of two words": {object: policy("preemption: Sometimes"), want: "Unsupported value"},

		"the scheduler may stay": {object: policy("priority: 3"), old: policy("schedulerName: default-scheduler")},
		"the scheduler is for ever": {
			object: policy("schedulerName: mine"), old: policy(), want: "schedulerName is immutable"},

		"dispatching is suspended everywhere": {object: policy("suspension: {dispatching: true}")},
		"dispatching is suspended somewhere":  {object: policy("suspension: {dispatchingOnClusters: {clusterNames: [a]}}")},
		"dispatching is suspended both ways": {
			object: policy("suspension: {dispatching: true, dispatchingOnClusters: {clusterNames: [a]}}"), want: "mutually exclusive"},

		"application failover with its defaults": {
			object: policy("propagateDeps: true", "failover: {application: {decisionConditions: {}}}")},
		"application failover needs dependencies": {
			object: policy("failover: {application: {decisionConditions: {}}}"), want: "needs propagateDeps"},
		"grace with Gracefully": {
			object: policy("propagateDeps: true", "failover: {application: {decisionConditions: {}, gracePeriodSeconds: 5}}")},
		"grace without Gracefully": {
			object: policy("propagateDeps: true", "failover: {application: {decisionConditions: {}, purgeMode: Directly, gracePeriodSeconds: 5}}"),
			want:   "only allowed with purgeMode Gracefully"},
		"no grace is no grace period": {
			object: policy("propagateDeps: true", "failover: {application: {decisionConditions: {}, gracePeriodSeconds: 0}}"),
			want:   "greater than 0"},
		"time does not run backwards": {
			object: policy("propagateDeps: true", "failover: {application: {decisionConditions: {tolerationSeconds: -1}}}"),
			want:   "must not be negative"},
		"a cluster cannot be left to a person": {
			object: policy("failover: {cluster: {purgeMode: Never}}"), want: "Unsupported value"},

		"both clients' spelling of a typical policy": {object: policy(
			"placement: {clusterAffinity: {clusterNames: [member1, member2]},",
			"  replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted,",
			"    weightPreference: {staticWeightList: [{targetCluster: {clusterNames: [member1]}, weight: 1}]}}}")},
		"a weight is at least one": {object: policy(
			"placement: {replicaScheduling: {weightPreference: {staticWeightList: [{targetCluster: {}, weight: 0}]}}}"),
			want: "greater than or equal to 1"},
	})
}

func TestPlacementAffinityRules(t *testing.T) {
	testAdmissions(t, "PropagationPolicy", map[string]admission{
		"groups in order": {object: policy(
			"placement: {clusterAffinities: [{affinityName: near, clusterNames: [a]}, {affinityName: far}]}")},
		"one affinity or several, not both": {object: policy(
			"placement: {clusterAffinity: {}, clusterAffinities: [{affinityName: near}]}"), want: "cannot be combined with clusterAffinity"},
		"an affinity beside an empty list": {object: policy("placement: {clusterAffinity: {}, clusterAffinities: []}")},
		"names of groups are unique": {object: policy(
			"placement: {clusterAffinities: [{affinityName: near}, {affinityName: near}]}"), want: "affinityName must be unique"},
		"a name of a group has a length": {object: policy(
			"placement: {clusterAffinities: [{affinityName: ''}]}"), want: "at least 1 chars long"},
		"a name of a group is short": {object: policy(
			"placement: {clusterAffinities: [{affinityName: " + strings.Repeat("x", 33) + "}]}"), want: "Too long"},

		"overflow with Aggregated": {object: policy(
			"placement: {clusterAffinities: [{affinityName: own, clusterNames: [a], overflowAffinities: [{affinityName: cloud, clusterNames: [b]}]}],",
			"  replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Aggregated}}")},
		"overflow with dynamic weight": {object: policy(
			"placement: {clusterAffinities: [{affinityName: own, clusterNames: [a], overflowAffinities: [{affinityName: cloud}]}],",
			"  replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted, weightPreference: {dynamicWeight: AvailableReplicas}}}")},
		"overflow of full copies": {object: policy(
			"placement: {clusterAffinities: [{affinityName: own, clusterNames: [a], overflowAffinities: [{affinityName: cloud}]}]}"),
			want: "overflowAffinities need replicaScheduling"},
		"overflow with static weights": {object: policy(
			"placement: {clusterAffinities: [{affinityName: own, clusterNames: [a], overflowAffinities: [{affinityName: cloud}]}],",
			"  replicaScheduling: {replicaDivisionPreference: Weighted}}"), want: "overflowAffinities need replicaScheduling"},
		"overflow of everything": {object: policy(
			"placement: {clusterAffinities: [{affinityName: own, overflowAffinities: [{affinityName: cloud}]}],",
			"  replicaScheduling: {replicaDivisionPreference: Aggregated}}"), want: "selects clusters itself"},

		"fields of clusters": {object: policy(
			"placement: {clusterAffinity: {fieldSelector: {matchExpressions: [{key: zone, operator: NotIn, values: [z1]}]}}}")},
		"an unknown field of clusters": {object: policy(
			"placement: {clusterAffinity: {fieldSelector: {matchExpressions: [{key: name, operator: In, values: [a]}]}}}"),
			want: "key must be provider, region or zone"},
		"an unsupported comparison of fields": {object: policy(
			"placement: {clusterAffinity: {fieldSelector: {matchExpressions: [{key: zone, operator: Exists}]}}}"),
			want: "operator must be In or NotIn"},
		"labels of clusters": {object: policy(
			"placement: {clusterAffinity: {labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}, {key: d, operator: In, values: [e]}]}}}")},

		"together by one label, apart by another": {object: policy(
			"placement: {workloadAffinity: {affinity: {groupByLabelKey: a}, antiAffinity: {groupByLabelKey: b}}}")},
		"together and apart by one label": {object: policy(
			"placement: {workloadAffinity: {affinity: {groupByLabelKey: a}, antiAffinity: {groupByLabelKey: a}}}"),
			want: "must use different label keys"},
	})
}

func TestTolerationRules(t *testing.T) {
	tolerating := func(toleration string) string {
		return policy("placement: {clusterTolerations: [" + toleration + "]}")
	}
	testAdmissions(t, "PropagationPolicy", map[string]admission{
		"a taint by key":           {object: tolerating("{key: a, operator: Exists}")},
		"a taint by key and value": {object: tolerating("{key: a, value: b, effect: NoSchedule}")},
		"every taint":              {object: tolerating("{operator: Exists}")},
		"eviction after a while":   {object: tolerating("{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 30}")},
		"larger than":              {object: tolerating("{key: a, operator: Gt, value: '1'}"), want: "operator must be Exists or Equal"},
		"smaller than":             {object: tolerating("{key: a, operator: Lt, value: '1'}"), want: "operator must be Exists or Equal"},
		"an unknown effect":        {object: tolerating("{key: a, effect: Never}"), want: "effect must be"},
		"no key and no Exists":     {object: tolerating("{value: b}"), want: "operator must be Exists when key is empty"},
		"existence has no value":   {object: tolerating("{key: a, operator: Exists, value: b}"), want: "value must be empty"},
		"only eviction takes time": {object: tolerating("{key: a, operator: Exists, tolerationSeconds: 30}"), want: "effect must be NoExecute"},
	})
}

func TestSpreadConstraintRules(t *testing.T) {
	spreading := func(constraints string) string {
		return policy("placement: {spreadConstraints: [" + constraints + "]}")
	}
	testAdmissions(t, "PropagationPolicy", map[string]admission{
		"over clusters":                          {object: spreading("{spreadByField: cluster, minGroups: 1, maxGroups: 2}")},
		"over clusters by default":               {object: spreading("{maxGroups: 2}")},
		"over regions and clusters":              {object: spreading("{spreadByField: region, minGroups: 2}, {spreadByField: cluster, minGroups: 3}")},
		"over a label":                           {object: spreading("{spreadByLabel: rack}")},
		"no upper limit":                         {object: spreading("{spreadByField: cluster, minGroups: 3, maxGroups: 0}")},
		"over regions, with clusters by default": {object: spreading("{spreadByField: region}, {minGroups: 1}")},
		"over regions alone":                     {object: spreading("{spreadByField: region}"), want: "spreadByField cluster is needed"},
		"over regions and a label":               {object: spreading("{spreadByField: region}, {spreadByLabel: rack}"), want: "spreadByField cluster is needed"},
		"twice over clusters":                    {object: spreading("{spreadByField: cluster}, {spreadByField: cluster}"), want: "must be unique"},
		"over both":                              {object: spreading("{spreadByField: cluster, spreadByLabel: rack}"), want: "mutually exclusive"},
		"over an unknown field":                  {object: spreading("{spreadByField: planet}"), want: "Unsupported value"},
		"more at least than at most":             {object: spreading("{spreadByField: cluster, minGroups: 3, maxGroups: 2}"), want: "must not be greater than maxGroups"},
		"fewer than none at least":               {object: spreading("{spreadByField: cluster, minGroups: -1}"), want: "minGroups must not be negative"},
		"fewer than none at most":                {object: spreading("{spreadByField: cluster, maxGroups: -1}"), want: "maxGroups must not be negative"},
	})
}

func TestOverridePolicyRules(t *testing.T) {
	rule := func(overriders string) string {
		return "kind: OverridePolicy\nspec: {overrideRules: [{targetCluster: {clusterNames: [a]}, overriders: {" + overriders + "}}]}"
	}
	testAdmissions(t, "OverridePolicy", map[string]admission{
		"every overrider": {object: rule(`
      plaintext: [{path: /spec/replicas, operator: replace, value: 3}, {path: /metadata/labels, operator: add, value: {a: b}}, {path: /a, operator: remove}],
      imageOverrider: [{predicate: {path: /spec/image}, component: Tag, operator: replace, value: v2}],
      commandOverrider: [{containerName: c, operator: add, value: [x]}], argsOverrider: [{containerName: c, operator: remove, value: [x]}],
      labelsOverrider: [{operator: add, value: {a: b}}], annotationsOverrider: [{operator: replace, value: {a: b}}],
      fieldOverrider: [{fieldPath: /data/x, yaml: [{subPath: /a, operator: add, value: [1, b]}]}]`)},
		"the deprecated form": {
			object: "kind: OverridePolicy\nspec: {targetCluster: {}, overriders: {plaintext: [{path: /a, operator: remove}]}}"},
		"rules beside what clients write for no overriders": {
			object: "kind: OverridePolicy\nspec: {overrideRules: [{overriders: {}}], overriders: {}}"},
		"rules beside deprecated clusters": {
			object: "kind: OverridePolicy\nspec: {overrideRules: [{overriders: {}}], targetCluster: {}}", want: "targetCluster cannot be combined"},
		"rules beside deprecated overriders": {
			object: "kind: OverridePolicy\nspec: {overrideRules: [{overriders: {}}], overriders: {labelsOverrider: [{operator: add, value: {a: b}}]}}",
			want:   "overriders cannot be combined"},
		"a field is a pointer": {object: rule("fieldOverrider: [{fieldPath: data.x}]"), want: "must be a JSON pointer"},
		"a field has one format": {
			object: rule("fieldOverrider: [{fieldPath: /data/x, json: [{subPath: /a, operator: remove}], yaml: [{subPath: /a, operator: remove}]}]"),
			want:   "mutually exclusive"},
		"an image is at a pointer":  {object: rule("imageOverrider: [{predicate: {path: spec}, component: Tag, operator: remove}]"), want: "must be a JSON pointer"},
		"commands are not replaced": {object: rule("commandOverrider: [{containerName: c, operator: replace}]"), want: "Unsupported value"},
		"images have three parts":   {object: rule("imageOverrider: [{component: Digest, operator: remove}]"), want: "Unsupported value"},
	})
}

func TestQuotaAndTaintPolicyRules(t *testing.T) {
	testAdmissions(t, "FederatedResourceQuota", map[string]admission{
		"limits in numbers and units": {
			object: "kind: FederatedResourceQuota\nspec: {overall: {cpu: 100, memory: 10Gi}, staticAssignments: [{clusterName: a, hard: {cpu: 500m}}]}"},
		"a limit is a quantity": {object: "kind: FederatedResourceQuota\nspec: {overall: {cpu: lots}}", want: "spec.overall.cpu"},
		"a cluster has a short name": {
			object: "kind: FederatedResourceQuota\nspec: {overall: {}, staticAssignments: [{clusterName: " + strings.Repeat("x", 49) + ", hard: {}}]}",
			want:   "1 to 48 characters"},
	})
	testAdmissions(t, "ClusterTaintPolicy", map[string]admission{
		"taints while not ready": {object: `
kind: ClusterTaintPolicy
spec:
  addOnConditions: [{conditionType: Ready, operator: NotIn, statusValues: ["True"]}]
  removeOnConditions: [{conditionType: Ready, operator: In, statusValues: ["True"]}]
  taints: [{key: not-ready, effect: NoSchedule}, {key: not-ready, effect: NoExecute}]`},
		"a taint is needed":  {object: "kind: ClusterTaintPolicy\nspec: {taints: []}", want: "at least 1 items"},
		"a taint has a key":  {object: "kind: ClusterTaintPolicy\nspec: {taints: [{key: '', effect: NoSchedule}]}", want: "at least 1 chars long"},
		"a taint comes once": {object: "kind: ClusterTaintPolicy\nspec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule, value: b}]}", want: "must be unique"},
		"an unknown effect":  {object: "kind: ClusterTaintPolicy\nspec: {taints: [{key: a, effect: Never}]}", want: "effect must be"},
		"an unknown comparison": {
			object: "kind: ClusterTaintPolicy\nspec: {taints: [{key: a, effect: NoSchedule}], addOnConditions: [{conditionType: Ready, operator: Is, statusValues: []}]}",
			want:   "operator must be In or NotIn"},
	})
}

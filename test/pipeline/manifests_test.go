package pipeline_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// TestAnAggregatedClusterRoleHasTheRolesOfItsCluster: in whatever order the roles and the policy come, each member aggregates what it has, nothing is put
// back, and the binding is applied.
func TestAnAggregatedClusterRoleHasTheRolesOfItsCluster(t *testing.T) {
	fleet := shared.Start(t)
	for _, order := range []string{"roles first", "policy first"} {
		t.Run(order, func(t *testing.T) {
			name := "aggregated-" + order[:4]
			label := map[string]string{"example.org/to": name}
			role := func(name, resource string) *rbacv1.ClusterRole {
				return &rbacv1.ClusterRole{
					TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label},
					Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}},
				}
			}
			reader, local, whole := role(name+"-reader", "pods"), role(name+"-local", "nodes"), role(name, "")
			whole.Labels, whole.Rules = nil, nil
			whole.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: label}}}
			policy := fleettest.ClusterPolicy(name, fleettest.Everywhere(), reader, whole)
			grants := func(resources ...string) func(*rbacv1.ClusterRole) error {
				return func(r *rbacv1.ClusterRole) error {
					var has []string
					for _, rule := range r.Rules {
						has = append(has, rule.Resources...)
					}
					slices.Sort(has)
					return equal(strings.Join(resources, " "), strings.Join(slices.Compact(has), " "))
				}
			}
			if order == "roles first" {
				fleettest.Create(t, fleet.Hub, reader, whole)
				fleettest.ExpectEventually(t, fleet.Hub, whole.DeepCopy(), grants("pods"))
				fleettest.Create(t, fleet.Hub, policy)
			} else {
				fleettest.Create(t, fleet.Hub, whole, policy)
				fleettest.ExpectEventually(t, fleet.Member("member1"), whole.DeepCopy(), fleettest.Exists)
				fleettest.Create(t, fleet.Hub, reader)
			}
			fleettest.ExpectEventually(t, fleet.Member("member1"), whole.DeepCopy(), grants("pods"))
			fleettest.Create(t, fleet.Member("member1"), local)
			fleettest.ExpectEventually(t, fleet.Member("member1"), whole.DeepCopy(), grants("nodes", "pods"))
			fleettest.ExpectEventually(t, fleet.Member("member2"), whole.DeepCopy(), grants("pods"))
			applied := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: workv1alpha2.BindingName("ClusterRole", name)}}
			fleettest.ExpectEventually(t, fleet.Hub, applied, func(b *workv1alpha2.ClusterResourceBinding) error {
				return conditionIs(b.Status.Conditions, workv1alpha2.FullyApplied, metav1.ConditionTrue, "")
			})
			// A later version of the template goes to the members, and the rules stay.
			fleettest.Update(t, fleet.Hub, whole, func(r *rbacv1.ClusterRole) { r.Labels = map[string]string{"version": "2"} })
			fleettest.ExpectEventually(t, fleet.Member("member1"), whole.DeepCopy(), func(r *rbacv1.ClusterRole) error {
				return errors.Join(equal("2", r.Labels["version"]), grants("nodes", "pods")(r))
			})
			if manifest := manifestIn(t, fleet, "member1", "ClusterRole", "", name); manifest.Object["rules"] != nil {
				t.Errorf("the manifest has rules: %v", manifest.Object["rules"])
			}
			if out := command(t, fleet.Hub.Kubeconfig, "drift", "clusterrole/"+name); strings.Contains(out, "/rules") {
				t.Errorf("the rules are put back:\n%s", out)
			}
		})
	}
}

// manifestIn is the manifest of an object for a member.
func manifestIn(t *testing.T, fleet *fleettest.Fleet, member, kind, ns, name string) *unstructured.Unstructured {
	t.Helper()
	w := fleettest.ExpectEventually(t, fleet.Hub, work(member, kind, ns, name), workIs(workv1alpha1.WorkApplied, metav1.ConditionTrue, ""))
	manifest := &unstructured.Unstructured{}
	if err := manifest.UnmarshalJSON(w.Spec.Workload.Manifests[0].Raw); err != nil {
		t.Fatal(err)
	}
	return manifest
}

// podDefaults are the fields of a pod template with a default.
var podDefaults = []string{"imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", "dnsPolicy", "restartPolicy", "schedulerName", "terminationGracePeriodSeconds"}

// sent has, for the kinds of Kubernetes, what is in a manifest though the user did not write it: defaults, which every cluster sets to the same values.
// What a controller or an allocator of the control plane writes must not be among them.
var sent = []struct {
	manifest string
	// defaults are the fields, without those of the pod template, which all have podDefaults.
	defaults []string
}{
	{`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b}}`, nil},
	{`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: eA==}}`, []string{"/type"}},
	{`{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}`, nil},
	{`{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}], selector: {a: b}}}`, []string{"/spec/internalTrafficPolicy", "/spec/ports/0/protocol", "/spec/ports/0/targetPort", "/spec/sessionAffinity", "/spec/type"}},
	{`{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}], selector: {a: b}}}`, []string{"/spec/allocateLoadBalancerNodePorts", "/spec/healthCheckNodePort", "/spec/internalTrafficPolicy", "/spec/ports/0/nodePort", "/spec/ports/0/protocol", "/spec/ports/0/targetPort", "/spec/sessionAffinity"}},
	{`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`, []string{"/spec/volumeMode"}},
	{`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}`, []string{"/spec/enableServiceLinks"}},
	{`{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}, spec: {hard: {secrets: "99"}}}`, nil},
	{`{apiVersion: v1, kind: LimitRange, metadata: {name: a}, spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 9Gi}}]}}`, nil},
	{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 0, selector: {matchLabels: {a: d}}, template: {metadata: {labels: {a: d}}, spec: {containers: [{name: c, image: i}]}}}}`, []string{"/spec/progressDeadlineSeconds", "/spec/revisionHistoryLimit", "/spec/strategy/rollingUpdate/maxSurge", "/spec/strategy/rollingUpdate/maxUnavailable", "/spec/strategy/type"}},
	{`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {replicas: 0, serviceName: a, selector: {matchLabels: {a: s}}, template: {metadata: {labels: {a: s}}, spec: {containers: [{name: c, image: i}]}}}}`, []string{"/spec/persistentVolumeClaimRetentionPolicy/whenDeleted", "/spec/persistentVolumeClaimRetentionPolicy/whenScaled", "/spec/podManagementPolicy", "/spec/revisionHistoryLimit", "/spec/updateStrategy/rollingUpdate/maxUnavailable", "/spec/updateStrategy/rollingUpdate/partition", "/spec/updateStrategy/type"}},
	{`{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {selector: {matchLabels: {a: e}}, template: {metadata: {labels: {a: e}}, spec: {containers: [{name: c, image: i}]}}}}`, []string{"/spec/revisionHistoryLimit", "/spec/updateStrategy/rollingUpdate/maxSurge", "/spec/updateStrategy/rollingUpdate/maxUnavailable", "/spec/updateStrategy/type"}},
	{`{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a}, spec: {replicas: 0, selector: {matchLabels: {a: r}}, template: {metadata: {labels: {a: r}}, spec: {containers: [{name: c, image: i}]}}}}`, nil},
	{`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`, []string{"/spec/backoffLimit", "/spec/completionMode", "/spec/completions", "/spec/manualSelector", "/spec/parallelism", "/spec/podReplacementPolicy"}},
	{`{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}}`, []string{"/spec/concurrencyPolicy", "/spec/failedJobsHistoryLimit", "/spec/successfulJobsHistoryLimit", "/spec/suspend"}},
	{`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a}, spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}}`, nil},
	{`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {matchLabels: {a: b}}}}`, []string{"/spec/policyTypes/0"}},
	{`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}}`, nil},
	{`{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: none}}}`, []string{"/spec/metrics/0/resource/name", "/spec/metrics/0/resource/target/averageUtilization", "/spec/metrics/0/resource/target/type", "/spec/metrics/0/type", "/spec/minReplicas"}},
	{`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}, rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`, nil},
	{`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}, subjects: [{kind: User, name: u}]}`, []string{"/subjects/0/apiGroup"}},
}

// pathsOf adds the paths of the leaves of a value.
func pathsOf(value any, path string, paths map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			pathsOf(child, path+"/"+key, paths)
		}
	case []any:
		for i, child := range v {
			pathsOf(child, fmt.Sprintf("%s/%d", path, i), paths)
		}
	default:
		paths[path] = true
	}
}

// TestOnlyDefaultsAreSentBesideWhatAUserWrote: of each kind an object goes through the control plane with its controllers to a member.
func TestOnlyDefaultsAreSentBesideWhatAUserWrote(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	var objects []client.Object
	for _, s := range sent {
		obj := parsed(t, s.manifest)
		obj.SetNamespace(ns)
		objects = append(objects, obj)
	}
	fleettest.Create(t, fleet.Hub, objects...)
	fleettest.Create(t, fleet.Hub, fleettest.Policy(ns, "all", fleettest.To("member1"), objects...))
	for i, s := range sent {
		wrote, has := map[string]bool{}, map[string]bool{}
		pathsOf(parsed(t, s.manifest).Object, "", wrote)
		manifest := manifestIn(t, fleet, "member1", objects[i].GetObjectKind().GroupVersionKind().Kind, ns, objects[i].GetName())
		pathsOf(manifest.Object, "", has)
		maps.DeleteFunc(has, func(path string, _ bool) bool {
			return wrote[path] || slices.Contains(podDefaults, path[strings.LastIndex(path, "/")+1:]) ||
				strings.HasPrefix(path, "/metadata/labels/") && strings.Contains(path, ".karmada.io/") || strings.HasPrefix(path, "/metadata/annotations/") && strings.Contains(path, ".karmada.io/") ||
				path == "/metadata/namespace" || path == "/metadata/labels/karmada.io/managed"
		})
		if got := slices.Sorted(maps.Keys(has)); !slices.Equal(got, s.defaults) {
			t.Errorf("%s %s: sent %q, want %q", manifest.GetKind(), manifest.GetName(), got, s.defaults)
		}
	}
}

package attacks_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// tooLarge expects that a binding has reports of so many clusters, none larger than its bound, and that those of some were cut.
func tooLarge(all int, cut ...string) func(*workv1alpha2.ResourceBinding) error {
	return func(b *workv1alpha2.ResourceBinding) error {
		found := 0
		for _, item := range b.Status.AggregatedStatus {
			if item.Status == nil {
				return fmt.Errorf("cluster %s has not reported", item.ClusterName)
			}
			if len(item.Status.Raw) > bounds.MaxStatusBytes {
				return fmt.Errorf("the status of cluster %s has %d bytes", item.ClusterName, len(item.Status.Raw))
			}
			for _, name := range cut {
				if name == item.ClusterName && reports.WasCut(item.Status) {
					found++
				}
			}
		}
		if len(b.Status.AggregatedStatus) != all || found != len(cut) {
			return fmt.Errorf("%d clusters have reported, want %d; of %v %d were cut", len(b.Status.AggregatedStatus), all, cut, found)
		}
		return nil
	}
}

// expectCutEvent waits for the event on a template that names what was cut.
func expectCutEvent(t *testing.T, hub *fleettest.Cluster, ns string) {
	t.Helper()
	fleettest.ExpectListed(t, hub, &corev1.EventList{}, ns, func(l *corev1.EventList) error {
		for i := range l.Items {
			if l.Items[i].Reason == events.AggregateStatusFailed && strings.HasPrefix(l.Items[i].Message, "TooLarge") {
				return nil
			}
		}
		return fmt.Errorf("none of %d Events says what was cut", len(l.Items))
	})
}

// TestALyingMemberFreezesNoBinding: the API server of one member reports a status of a megabyte. The template still changes everywhere.
func TestALyingMemberFreezesNoBinding(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	web := fleettest.Deployment(ns, "web", 2)
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", fleettest.Everywhere(), web))
	for i, member := range fleet.Members {
		message := "fine"
		if i == 0 {
			message = strings.Repeat("x", 1_000_000)
		}
		copied := fleettest.ExpectEventually(t, member, fleettest.Deployment(ns, "web", 2), fleettest.Exists[*appsv1.Deployment])
		copied.Status = appsv1.DeploymentStatus{
			ObservedGeneration: copied.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", Message: message}},
		}
		if err := member.Status().Update(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
	}
	binding := bindingOf(ns, "Deployment", "web")
	fleettest.ExpectEventually(t, fleet.Hub, binding, tooLarge(len(fleet.Members), fleet.Members[0].Name))
	fleettest.ExpectEventually(t, fleet.Hub, web, func(d *appsv1.Deployment) error { // what is small counts
		if d.Status.ReadyReplicas != int32(2*len(fleet.Members)) {
			return fmt.Errorf("%d replicas are ready", d.Status.ReadyReplicas)
		}
		return nil
	})
	expectCutEvent(t, fleet.Hub, ns)
	fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
	for _, member := range fleet.Members {
		fleettest.ExpectEventually(t, member, fleettest.Deployment(ns, "web", 2), func(d *appsv1.Deployment) error {
			if *d.Spec.Replicas != 4 {
				return fmt.Errorf("%d replicas", *d.Spec.Replicas)
			}
			return nil
		})
	}
}

// agentOf registers a cluster in Pull mode, whose agent is what the test does as its user.
func agentOf(t *testing.T, hub *fleettest.Cluster, name string) *fleettest.Cluster {
	t.Helper()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull, ID: name}}
	fleettest.Create(t, hub, cluster)
	agent := hub.As(t, rest.ImpersonationConfig{UserName: clusterv1alpha1.AgentUser(name), Groups: append(clusterv1alpha1.AgentGroups(cluster.UID), "system:authenticated")})
	until(t, func() error {
		if err := agent.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		cluster.Status.KubernetesVersion = "v1.36.0"
		cluster.Status.APIEnablements = []clusterv1alpha1.APIEnablement{
			{GroupVersion: "apps/v1", Resources: []clusterv1alpha1.APIResource{{Name: "deployments", Kind: "Deployment"}}},
			{GroupVersion: "autoscaling/v2", Resources: []clusterv1alpha1.APIResource{{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler"}}},
			{GroupVersion: "v1", Resources: []clusterv1alpha1.APIResource{{Name: "namespaces", Kind: "Namespace"}}},
		}
		cluster.Status.Conditions = []metav1.Condition{clusterv1alpha1.Ready(), clusterv1alpha1.APIEnablementsComplete()}
		for i := range cluster.Status.Conditions {
			cluster.Status.Conditions[i].LastTransitionTime = metav1.Now()
		}
		cluster.Status.NodeSummary = &clusterv1alpha1.NodeSummary{TotalNum: 1 << 30, ReadyNum: 1 << 30}
		return agent.Status().Update(t.Context(), cluster)
	})
	if n := cluster.Status.NodeSummary.TotalNum; n > bounds.MaxNodes {
		t.Errorf("cluster %s has %d nodes", name, n)
	}
	return agent
}

// report has the agent of a cluster report the status of Deployment web, as applied.
func report(t *testing.T, agent *fleettest.Cluster, cluster, ns, status string) {
	t.Helper()
	work := workOf(cluster, "Deployment", ns, "web")
	until(t, func() error {
		if err := agent.Get(t.Context(), client.ObjectKeyFromObject(work), work); err != nil {
			return err
		}
		applied := workv1alpha1.Applied(work.Generation)
		applied.LastTransitionTime = metav1.Now()
		work.Status = workv1alpha1.WorkStatus{Conditions: []metav1.Condition{applied}, ManifestStatuses: []workv1alpha1.ManifestStatus{{
			Identifier: workv1alpha1.ResourceIdentifier{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: ns, Name: "web"},
			Status:     &runtime.RawExtension{Raw: []byte(status)}, Health: workv1alpha1.ResourceHealthy,
		}}}
		return agent.Status().Update(t.Context(), work)
	})
}

// TestAStolenAgentCredentialIsAboutItsClusterOnly has the credential of the agent of one cluster, and reports of it what does harm to others.
func TestAStolenAgentCredentialIsAboutItsClusterOnly(t *testing.T) {
	t.Parallel()
	hub := fleettest.StartHub(t)
	thief, honest := agentOf(t, hub.Cluster, "thief"), agentOf(t, hub.Cluster, "honest")
	const ns = "shop"
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})

	t.Run("a billion replicas", func(t *testing.T) {
		web := fleettest.Deployment(ns, "web", 4)
		hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 5,
		}}
		policy := fleettest.Policy(ns, "web", fleettest.Divided(fleettest.Weight{Cluster: "thief", Weight: 1}, fleettest.Weight{Cluster: "honest", Weight: 1}), web)
		policy.Spec.ResourceSelectors = append(policy.Spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Name: "web"})
		fleettest.Create(t, hub.Cluster, web, hpa, policy)
		fleettest.ExpectEventually(t, hub.Cluster, web, func(d *appsv1.Deployment) error {
			if d.Labels[policyv1alpha1.RetainReplicasLabel] != "true" {
				return fmt.Errorf("it has the labels %v", d.Labels)
			}
			return nil
		})
		counted := func(replicas int) string {
			return fmt.Sprintf(`{"replicas":%[1]d,"updatedReplicas":%[1]d,"readyReplicas":%[1]d,"availableReplicas":%[1]d,"observedGeneration":1,"generation":1,"resourceTemplateGeneration":1000}`, replicas)
		}
		// The label reaches the Works after them. A report is about one generation, and an agent would repeat it for the next.
		for _, cluster := range []string{"thief", "honest"} {
			fleettest.ExpectEventually(t, hub.Cluster, workOf(cluster, "Deployment", ns, "web"), func(w *workv1alpha1.Work) error {
				if manifest := w.Spec.Workload.Manifests[0].Raw; !strings.Contains(string(manifest), policyv1alpha1.RetainReplicasLabel) {
					return fmt.Errorf("its object is %s", manifest)
				}
				return nil
			})
		}
		report(t, thief, "thief", ns, counted(1_500_000_000))
		report(t, honest, "honest", ns, counted(2))
		fleettest.ExpectEventually(t, hub.Cluster, web, func(d *appsv1.Deployment) error {
			if got := *d.Spec.Replicas; got != 5+2 {
				return fmt.Errorf("it has %d replicas, and the autoscaler allows 5 and 2", got)
			}
			return nil
		})
	})
	t.Run("a frozen binding", func(t *testing.T) {
		report(t, thief, "thief", ns, `{"replicas":2,"junk":"`+strings.Repeat("x", 1_300_000)+`"}`)
		binding := bindingOf(ns, "Deployment", "web")
		fleettest.ExpectEventually(t, hub.Cluster, binding, tooLarge(2, "thief"))
		expectCutEvent(t, hub.Cluster, ns)
	})
	t.Run("records", func(t *testing.T) { recordsOfAThief(t, thief, ns) })
	t.Run("owners", func(t *testing.T) {
		for name, patch := range map[string]string{
			"a foreign owner":    `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"gone"}]}}`,
			"a foreign deletion": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"shop","uid":"gone","blockOwnerDeletion":true}]}}`,
			"a finalizer":        `{"metadata":{"finalizers":["` + workv1alpha1.ExecutionFinalizer + `","a.b/c"]}}`,
			"an annotation":      `{"metadata":{"annotations":{"` + workv1alpha2.ResourceBindingNamespaceAnnotation + `":"bank"}}}`,
		} {
			err := thief.Patch(t.Context(), workOf("thief", "Deployment", ns, "web"), client.RawPatch("application/merge-patch+json", []byte(patch)))
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("events", func(t *testing.T) { // of the other agent none is suppressed
		event := func(cluster string, i int, message string) *corev1.Event {
			e := eventOf("default", fmt.Sprintf("%s-%d", cluster, i))
			e.InvolvedObject = corev1.ObjectReference{Kind: "Cluster", Name: cluster}
			e.Message = message
			return e
		}
		if err := thief.Create(t.Context(), event("thief", -1, strings.Repeat("x", 100_000))); !apierrors.IsForbidden(err) {
			t.Errorf("an Event of 100 kB: %v", err)
		}
		floodEvents(t, func(i int) error { return thief.Create(t.Context(), event("thief", i, "short")) })
		if err := honest.Create(t.Context(), event("honest", 0, "short")); err != nil {
			t.Errorf("the agent of another cluster: %v", err)
		}
	})
}

// recordsOfAThief tries records that are not what the collectors write.
func recordsOfAThief(t *testing.T, thief *fleettest.Cluster, ns string) {
	record := func(edit func(*workv1alpha1.Work)) *workv1alpha1.Work {
		w := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: workv1alpha1.ExecutionNamespace("thief"), Name: multiclusterv1beta1.ExportRecordName(ns, "web"), Labels: map[string]string{
			multiclusterv1beta1.ExportNamespaceLabel: ns, multiclusterv1beta1.ExportNameLabel: "web", multiclusterv1beta1.ExportRoleLabel: multiclusterv1beta1.RoleExport,
		}}}
		w.Spec.SuspendDispatching = new(true)
		for _, object := range []any{
			&multiclusterv1beta1.ServiceExport{TypeMeta: metav1.TypeMeta{APIVersion: multiclusterv1beta1.GroupVersion.String(), Kind: multiclusterv1beta1.KindServiceExport}, ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}},
			&corev1.Service{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}},
		} {
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
		}
		if edit != nil {
			edit(w)
		}
		return w
	}
	for name, edit := range map[string]func(*workv1alpha1.Work){
		"of another tenant": func(w *workv1alpha1.Work) {
			w.AddAnnotations(map[string]string{workv1alpha2.ResourceBindingNamespaceAnnotation: ns})
		},
		"of 1.2 MB": func(w *workv1alpha1.Work) {
			raw := &w.Spec.Workload.Manifests[0].Raw
			*raw = []byte(strings.TrimSuffix(string(*raw), "}") + `,"junk":"` + strings.Repeat("x", 1_200_000) + `"}`)
		},
		"with a verdict": func(w *workv1alpha1.Work) {
			w.AddAnnotations(map[string]string{multiclusterv1beta1.VerdictAnnotation: "{}"})
		},
	} {
		if err := thief.Create(t.Context(), record(edit)); !apierrors.IsForbidden(err) {
			t.Errorf("a record %s: %v", name, err)
		}
	}
	if err := thief.Create(t.Context(), record(nil)); err != nil {
		t.Errorf("a record as the collectors write it: %v", err)
	}
}

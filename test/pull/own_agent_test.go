package pull_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/apiserver/pki"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestOwnAgent runs the agent of this project: it registers, applies, survives a kill without a write, may do nothing but its work, and
// loses its credential with its Cluster. It takes two and a half minutes beside other tests: the agent is started again and again, and is silent for as long as it takes to show.
func TestOwnAgent(t *testing.T) {
	hub := fleettest.StartHub(t, append([]string{"--enable-bootstrap-token-auth", "--descheduling-interval=1s", "--unschedulable-threshold=1s"}, impatient...)...)
	member := fleettest.StartMember(t, "far", "--nodes", "1")
	quick := []string{"--cluster-probe-period=1s", "--cluster-lease-duration=1s", "--cluster-failure-threshold=1s", "--cluster-success-threshold=1s"}
	register := func() *fleettest.Agent { return hub.StartAgent(t, "far", member.Kubeconfig, quick...) }
	agent := register()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}}
	fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "far"}}
	fleettest.ExpectEventually(t, hub.Cluster, lease, func(l *coordinationv1.Lease) error {
		expiry, err := time.Parse(time.RFC3339, l.Annotations[clusterv1alpha1.AgentCertificateExpiryAnnotation])
		if version := l.Annotations[clusterv1alpha1.AgentVersionAnnotation]; version == "" || err != nil || !expiry.After(time.Now()) {
			return fmt.Errorf("the agent reports the version %q and the certificate's expiry %s: %v", version, expiry, err)
		}
		return nil
	})

	web := fleettest.Deployment("shop", "web", 2)
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, fleettest.Policy("shop", "web", fleettest.To("far"), web), web)
	running := func(d *appsv1.Deployment) error {
		if d.Status.ReadyReplicas != *d.Spec.Replicas || d.Status.ObservedGeneration != d.Generation {
			return fmt.Errorf("%d of %d replicas are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return nil
	}
	fleettest.ExpectEventually(t, hub.Cluster, &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: "far"}}, func(c *fleetv1alpha1.ClusterCapacity) error {
		if len(c.Nodes) != 1 || c.Nodes[0].Name != "far-node-1" {
			return fmt.Errorf("it reports the nodes %v", c.Nodes)
		}
		return nil
	})
	there := fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), running)
	fleettest.ExpectEventually(t, hub.Cluster, web, running)

	t.Run("AKilledAgentTouchesNothingWhenItIsBack", func(t *testing.T) {
		agent.Kill()
		renew := expire(t, hub, agent, cluster)
		agent.Start(t)
		agent.ExpectEnd(t, "does not accept the agent of cluster far, whose certificate expired at ")
		fleettest.ExpectEventually(t, hub.Cluster, cluster,
			ready(metav1.ConditionUnknown, clusterv1alpha1.ClusterStatusUnknownReason, clusterv1alpha1.TaintClusterUnreachable))
		renew()
		agent.Start(t)
		fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
		// An object that is new comes after everything that the agent does at its start.
		later := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"}}
		fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "later", fleettest.To("far"), later), later)
		fleettest.ExpectEventually(t, member.Cluster, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "later"}},
			func(*corev1.ConfigMap) error { return nil })
		fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), func(d *appsv1.Deployment) error {
			if d.UID != there.UID || d.Generation != there.Generation {
				return fmt.Errorf("its generation went from %d to %d", there.Generation, d.Generation)
			}
			return nil
		})
	})
	t.Run("ItLosesTheControlPlane", func(t *testing.T) { losesTheControlPlane(t, hub, member, agent, cluster) })
	t.Run("ItGetsWorksCompressed", func(t *testing.T) { getsWorksCompressed(t, hub, member, agent) })
	t.Run("ItStartsWithTheControlPlane", func(t *testing.T) { startsWithTheControlPlane(t, hub, member, agent) })
	t.Run("ACertificateOfItsMemberThatIsNotValidIsReported", func(t *testing.T) {
		agent.Kill()
		proxy := fleettest.StartProxy(t, member.Cluster)
		agent.Start(t, "--cluster-kubeconfig", proxy.Kubeconfig)
		fleettest.Eventually(t, "the agent uses the proxy", func() bool { return proxy.Count(http.MethodGet) > 0 })
		proxy.ExpectCertificates(t, hub.Cluster, cluster)
		agent.Kill()
		agent.Start(t, "--cluster-kubeconfig", member.Kubeconfig)
	})
	t.Run("PodsThatNoNodeTakesMove", func(t *testing.T) { movesPods(t, hub, member) })
	t.Run("ItIsReachedThroughItsTunnel", func(t *testing.T) { isReachedThroughItsTunnel(t, hub, member) })
	t.Run("ATunnelIsItsOwn", func(t *testing.T) { tunnelIsItsOwn(t, hub, agent) })
	t.Run("AStolenCredentialDoesNothingElse", func(t *testing.T) { doesNothingElse(t, hub, agent) })
	// untouched compares the objects in the member with what they were, after an object has arrived that is newer than the last change.
	untouched := func(t *testing.T, name string) {
		t.Helper()
		newest := fleettest.ConfigMap("shop", name, nil)
		fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", name, fleettest.To("far"), newest), newest)
		fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap("shop", name, nil), fleettest.Exists)
		now := fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), running)
		if now.UID != there.UID || !equality.Semantic.DeepEqual(writes(there), writes(now)) {
			t.Errorf("the object in the member was written: its generation was %d and is %d, the writes were\n%v\nand are\n%v",
				there.Generation, now.Generation, writes(there), writes(now))
		}
		there = now
	}
	t.Run("ItsModeChangesWithoutAWriteInTheMember", func(t *testing.T) {
		there = fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), running)
		hub.Join(t, "far", member.Kubeconfig)
		agent.ExpectEnd(t, " mode") // "not in Pull mode" or "in Push mode", by what the authorizer has seen
		fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
		untouched(t, "pushed")

		fleettest.Update(t, hub.Cluster, cluster, func(c *clusterv1alpha1.Cluster) { c.Spec.SyncMode = clusterv1alpha1.Pull })
		agent = register()
		fleettest.ExpectEventually(t, hub.Cluster, cluster, ready(metav1.ConditionTrue, clusterv1alpha1.ClusterReadyReason, ""))
		untouched(t, "pulled")
	})
	t.Run("AnAgentThatWasAwayDoesNotReturn", func(t *testing.T) {
		agent.Kill()
		r := fleettest.Flagship(t, "unregister", "far", "--keep-objects", "--kubeconfig", hub.Kubeconfig)
		if r.Code != 0 {
			t.Fatalf("unregister: %s", r.Stderr)
		}
		agent.Start(t)
		agent.ExpectEnd(t, "does not exist any more")
		agent = register()
		// The new Work takes the object over, which changes its labels and annotations once.
		taken := fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), func(d *appsv1.Deployment) error {
			if d.Generation == there.Generation {
				return errors.New("it is not taken over yet")
			}
			return running(d)
		})
		if taken.UID != there.UID {
			t.Error("the object was deleted")
		}
		there = taken
		untouched(t, "registered-again")
	})
	var ends func(*testing.T)
	t.Run("KarmadactlRegistersAnother", func(t *testing.T) { ends = registersWithKarmadactl(t, hub) })
	t.Run("AgentsInTheClusterShareACredential", func(t *testing.T) {
		agent.Kill()
		runsInTheCluster(t, hub, member, untouched)
		agent.Start(t)
	})
	t.Run("ARegistrationThatStopsIsRepeated", func(t *testing.T) { repeats(t, hub) })
	t.Run("AMemberHasOneControlPlaneAndOneName", func(t *testing.T) { isRefused(t, hub, member) })
	t.Run("TheCredentialEndsWithTheCluster", func(t *testing.T) {
		if err := hub.Delete(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		fleettest.ExpectGone(t, hub.Cluster, cluster)
		fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), running) // its objects stay
		agent.ExpectEnd(t, "does not exist any more")
		// It stays: the next agent is registered with it.
		if err := hub.Create(t.Context(), &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}, Spec: clusterv1alpha1.ClusterSpec{SyncMode: clusterv1alpha1.Pull}}); err != nil {
			t.Fatal(err)
		}
		err := agent.List(t.Context(), &workv1alpha1.WorkList{}, client.InNamespace(workv1alpha1.ExecutionNamespace("far")))
		if !apierrors.IsForbidden(err) {
			t.Errorf("the agent of an earlier Cluster reads the Works of a later one of the same name: %v", err)
		}
	})
	t.Run("UnregisterCleansUp", func(t *testing.T) {
		agent = register()
		last := fleettest.ConfigMap("shop", "last", nil)
		fleettest.Create(t, hub.Cluster, fleettest.Policy("shop", "last", fleettest.To("far"), last), last)
		fleettest.ExpectEventually(t, member.Cluster, fleettest.ConfigMap("shop", "last", nil), fleettest.Exists)
		fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment("shop", "web", 2), func(d *appsv1.Deployment) error {
			if d.Labels[workv1alpha1.ManagedLabel] == "" {
				return errors.New("no Work applies it")
			}
			return nil
		})
		r := fleettest.Flagship(t, "unregister", "far", "--delete-objects", "--kubeconfig", hub.Kubeconfig, "--cluster-kubeconfig", member.Kubeconfig)
		if r.Code != 0 {
			t.Fatalf("unregister: %s", r.Stderr)
		}
		fleettest.ExpectGone(t, hub.Cluster, cluster)
		agent.ExpectEnd(t, "does not exist any more")
		// With the namespace go the account, and the Deployment and the Secrets of "register --apply".
		fleettest.ExpectGone(t, member.Cluster, fleettest.ConfigMap("shop", "last", nil))
		// It was released with the Cluster before, and the one registered after it has taken it back.
		fleettest.ExpectGone(t, member.Cluster, fleettest.Deployment("shop", "web", 2))
		fleettest.ExpectGone(t, member.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: clusterv1alpha1.ClusterNamespace}})
	})
	if ends != nil {
		t.Run("ACertificateOfKarmadactlEndsWithTheCluster", ends)
	}
	t.Run("ATokenIsForOneCluster", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "near.kubeconfig")
		if r := fleettest.Flagship(t, "token", "create", "near", "--kubeconfig", hub.Kubeconfig, "--file", file); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		r := fleettest.Flagship(t, "register", "other", "--bootstrap-kubeconfig", file, "--cluster-kubeconfig", member.Kubeconfig, "--data-dir", t.TempDir())
		if r.Code == 0 || !strings.Contains(r.Stderr, `registers cluster "near" only`) {
			t.Errorf("a token registers another cluster than its own: %d %s", r.Code, r.Stderr)
		}
	})
}

// writes are those that an object has had, but for those of its status: the controllers of the member write that when they will.
func writes(d *appsv1.Deployment) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(d.ManagedFields), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" })
}

// movesPods creates a Deployment whose pods exclude each other on a node, of which each member has one. The agent of the
// only member reports the pod that no node takes, and that replica moves when there is another member.
func movesPods(t *testing.T, hub, far *fleettest.Part) {
	other := fleettest.StartMember(t, "other", "--nodes", "1")
	apart := fleettest.Deployment("shop", "apart", 2)
	apart.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: apart.Spec.Selector}}}}
	policy := fleettest.Policy("shop", "apart", fleettest.To("far", "other"), apart)
	policy.Spec.Placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceAggregated}
	policy.Annotations = map[string]string{policyv1alpha1.DescheduleAnnotation: "true"}
	fleettest.Create(t, hub.Cluster, policy, apart)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: workv1alpha2.BindingName("Deployment", "apart")}}
	limited := fleettest.ExpectEventually(t, hub.Cluster, binding, func(b *workv1alpha2.ResourceBinding) error {
		if limits := workv1alpha2.ReplicaLimits(b, b.CreationTimestamp.Time); limits["far"].Replicas != 1 {
			return fmt.Errorf("its limits are %v", limits)
		}
		return nil
	})
	if targets := limited.Spec.Clusters; len(targets) != 1 || targets[0].Replicas != 2 { // there is no other place yet
		t.Errorf("it is assigned to %v", targets)
	}

	hub.Join(t, "other", other.Kubeconfig)
	moved := func(c *fleettest.Cluster) {
		t.Helper()
		fleettest.ExpectEventually(t, c, fleettest.Deployment("shop", "apart", 1), func(d *appsv1.Deployment) error {
			return errors.Join(fleettest.Replicas(1)(d), fleettest.Available(d))
		})
	}
	moved(other.Cluster)
	moved(far.Cluster)
	fleettest.ExpectEventually(t, hub.Cluster, binding, func(b *workv1alpha2.ResourceBinding) error {
		got := map[string]int32{}
		for _, target := range b.Spec.Clusters {
			got[target.Name] = target.Replicas
		}
		if !maps.Equal(got, map[string]int32{"far": 1, "other": 1}) {
			return fmt.Errorf("its replicas are %v", got)
		}
		return nil
	})
	fleettest.ExpectEventually(t, hub.Cluster, apart, fleettest.Available)
	fleettest.Delete(t, hub.Cluster, policy, apart)
	if r := fleettest.Flagship(t, "unjoin", "other", "--delete-objects", "--kubeconfig", hub.Kubeconfig); r.Code != 0 {
		t.Errorf("unjoin: %s", r.Stderr)
	}
}

// expire replaces the certificate of an agent that does not run by one that has expired. renew brings the first one back.
func expire(t *testing.T, hub *fleettest.Part, agent *fleettest.Agent, cluster *clusterv1alpha1.Cluster) (renew func()) {
	t.Helper()
	keys, err := pki.Open(filepath.Join(hub.Dir, "pki"), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	authority, err := keys.Authority("ca", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue(pki.Profile{
		CommonName: clusterv1alpha1.AgentUser(cluster.Name), Groups: clusterv1alpha1.AgentGroups(cluster.UID), Life: time.Nanosecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(agent.Dir, "agent.pem")
	valid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(slices.Concat(cert, key))
	return func() { write(valid) }
}

// isRefused registers the member "far" again: under another name, with another control plane, and as a cluster in Push mode.
func isRefused(t *testing.T, hub, member *fleettest.Part) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Namespace: clusterv1alpha1.ClusterNamespace, Name: "karmada-elsewhere",
		Labels:      map[string]string{clusterv1alpha1.SystemLabel: clusterv1alpha1.SystemLabelValue},
		Annotations: map[string]string{workv1alpha1.ControlPlaneAnnotation: "another-control-plane"},
	}}
	register := func(name string, args ...string) fleettest.Result {
		t.Helper()
		dir := t.TempDir()
		file := filepath.Join(dir, "bootstrap.kubeconfig")
		if r := fleettest.Flagship(t, "token", "create", name, "--kubeconfig", hub.Kubeconfig, "--file", file); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		return fleettest.Flagship(t, append([]string{"register", name, "--bootstrap-kubeconfig", file, "--cluster-kubeconfig", member.Kubeconfig, "--data-dir", dir}, args...)...)
	}
	if r := register("second"); r.Code == 0 || !strings.Contains(r.Stderr, `is registered as cluster "far" already`) {
		t.Errorf("one cluster is registered under two names: %d %s", r.Code, r.Stderr)
	}
	fleettest.Create(t, member.Cluster, account)
	if r := register("far"); r.Code == 0 || !strings.Contains(r.Stderr, "the cluster is a member of another control plane: another-control-plane") {
		t.Errorf("a cluster of another control plane is registered: %d %s", r.Code, r.Stderr)
	}
	if r := register("far", "--share"); r.Code != 0 {
		t.Errorf("it is not registered with --share: %s", r.Stderr)
	}
	fleettest.Delete(t, member.Cluster, account)
	own := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: "karmada-far"}}
	fleettest.ExpectEventually(t, member.Cluster, own, func(sa *corev1.ServiceAccount) error {
		if sa.Annotations[workv1alpha1.ControlPlaneAnnotation] == "" {
			return errors.New("it does not name the control plane")
		}
		return nil
	})
	if r := fleettest.Flagship(t, "register", "far", "--bootstrap-kubeconfig", hub.Kubeconfig, "--cluster-kubeconfig", hub.Kubeconfig, "--data-dir", t.TempDir()); r.Code == 0 {
		t.Error("another cluster is registered under the name of a member")
	}
}

// doesNothingElse requests every verb on every resource that is served, as a thief of the agent's certificate would.
func doesNothingElse(t *testing.T, hub *fleettest.Part, agent *fleettest.Agent) {
	expectRights(t, hub, agent.Config,
		"get list watch resourceinterpretercustomizations", "get list watch resourceinterpreterwebhookconfigurations",
		"create get list watch certificatesigningrequests",
		"create clustercapacities", // of the name of its Cluster
		"create karmada-cluster/leases")
	for name, list := range map[string]client.ObjectList{
		"karmada-es-near": &workv1alpha1.WorkList{}, "karmada-cluster": &corev1.SecretList{}, "kube-system": &corev1.SecretList{}, "shop": &appsv1.DeploymentList{},
	} {
		if err := agent.List(t.Context(), list, client.InNamespace(name)); !apierrors.IsForbidden(err) {
			t.Errorf("it lists %T in %s: %v", list, name, err)
		}
	}
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "far"}}
	if err := agent.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the control plane writes it, too
		if err := agent.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		cluster.Labels = map[string]string{"tier": "production"}
		return agent.Update(t.Context(), cluster)
	})
	if !apierrors.IsForbidden(err) {
		t.Errorf("it labels its Cluster: %v", err)
	}
	for name, allowed := range map[string]bool{"far": true, "near": false} {
		capacity := &fleetv1alpha1.ClusterCapacity{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := agent.Create(t.Context(), capacity, client.DryRunAll); apierrors.IsForbidden(err) == allowed {
			t.Errorf("it writes the capacity of cluster %s: %v", name, err)
		}
	}
	lie := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lie"}, InvolvedObject: corev1.ObjectReference{Kind: "Cluster", Name: "near"}}
	if err := agent.Create(t.Context(), lie); !apierrors.IsForbidden(err) {
		t.Errorf("it publishes an event about another Cluster: %v", err)
	}
}

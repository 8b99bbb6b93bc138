package playground_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
	"github.com/flagship-k8s/flagship/internal/tools/playground"
	"github.com/flagship-k8s/flagship/internal/tools/playground/demo"
)

// failingImage is one that members cannot pull.
const failingImage = "nginx:1.99"

var shared = fleettest.Shared{Options: fleettest.Options{Members: 2, Args: []string{"--failing-images", failingImage}}}

func TestMain(m *testing.M) {
	if code, played := playground.PlayRole(); played {
		os.Exit(code)
	}
	shared.Main(m)
}

// memberNamespace makes a namespace in a member, where this test's workloads are of no concern to the hub.
func memberNamespace(t *testing.T, c *fleettest.Cluster) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	fleettest.Create(t, c, ns)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "default"}}
	fleettest.ExpectEventually(t, c, account, fleettest.Exists)
	return ns.Name
}

func podTemplate(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
	}
}

// TestWorkloadsBehave: in a member everything goes its way but containers.
func TestWorkloadsBehave(t *testing.T) {
	member := shared.Start(t).Member("member1")
	ns := memberNamespace(t, member)
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: ns, Name: name} }
	selector := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}

	web := fleettest.Deployment(ns, "web", 4)
	stateful := &appsv1.StatefulSet{ObjectMeta: named("stateful"), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](2), ServiceName: "stateful", Selector: selector("stateful"), Template: podTemplate("stateful"),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}},
	}}
	everywhere := &appsv1.DaemonSet{ObjectMeta: named("everywhere"), Spec: appsv1.DaemonSetSpec{Selector: selector("everywhere"), Template: podTemplate("everywhere")}}
	task := podTemplate("task")
	task.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: named("task"), Spec: batchv1.JobSpec{Completions: ptr.To[int32](2), Template: task}}
	fleettest.Create(t, member, web, fleettest.Service(ns, "web"), stateful, everywhere, job)

	fleettest.ExpectEventually(t, member, web, fleettest.Available)
	fleettest.ExpectEventually(t, member, stateful, func(s *appsv1.StatefulSet) error { return count(s.Status.ReadyReplicas, 2) })
	fleettest.ExpectEventually(t, member, everywhere, func(d *appsv1.DaemonSet) error { return count(d.Status.NumberReady, playground.DefaultNodes) })
	fleettest.ExpectEventually(t, member, job, func(j *batchv1.Job) error { return count(j.Status.Succeeded, 2) })
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named("data-stateful-1")}
	claim = fleettest.ExpectEventually(t, member, claim, func(c *corev1.PersistentVolumeClaim) error {
		if c.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("it is %s", c.Status.Phase)
		}
		return nil
	})
	expectEndpoints(t, member, ns, "web", 4)

	fleettest.Delete(t, member, stateful, claim)
	fleettest.ExpectGone(t, member, &corev1.Pod{ObjectMeta: named("stateful-0")})
	fleettest.ExpectGone(t, member, claim)
	fleettest.ExpectGone(t, member, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}})
}

func count(got, want int32) error {
	if got != want {
		return fmt.Errorf("it counts %d, want %d", got, want)
	}
	return nil
}

// expectEndpoints waits until the slices of a Service hold n ready addresses of the member's own range.
func expectEndpoints(t *testing.T, c *fleettest.Cluster, ns, service string, n int) {
	t.Helper()
	fleettest.ExpectListed(t, c, &discoveryv1.EndpointSliceList{}, ns, func(list *discoveryv1.EndpointSliceList) error {
		ready := 0
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				if s.Labels[discoveryv1.LabelServiceName] == service && ptr.Deref(e.Conditions.Ready, false) && strings.HasPrefix(e.Addresses[0], "10.64.") {
					ready++
				}
			}
		}
		return count(int32(ready), int32(n))
	})
}

// TestMembersHaveNodesOfTheirOwn: what differs between real clusters differs here.
func TestMembersHaveNodesOfTheirOwn(t *testing.T) {
	fleet := shared.Start(t)
	ranges := map[string]string{}
	for _, member := range fleet.Members {
		var nodes corev1.NodeList
		fleettest.ExpectListed(t, member, &nodes, "", func(nodes *corev1.NodeList) error { // one that was slow to renew its Lease was tainted
			for _, n := range nodes.Items {
				if len(n.Spec.Taints) > 0 {
					return fmt.Errorf("%s is tainted: %v", n.Name, n.Spec.Taints)
				}
			}
			return nil
		})
		zones := map[string]bool{}
		for _, n := range nodes.Items {
			if other, taken := ranges[n.Spec.PodCIDR]; taken {
				t.Errorf("%s and %s both have pods in %s", n.Name, other, n.Spec.PodCIDR)
			}
			ranges[n.Spec.PodCIDR] = n.Name
			zones[n.Labels[corev1.LabelTopologyZone]] = true
		}
		if len(nodes.Items) != playground.DefaultNodes || len(zones) != len(nodes.Items) {
			t.Errorf("%s has %d nodes in %d zones, want %d in as many", member.Name, len(nodes.Items), len(zones), playground.DefaultNodes)
		}
	}
}

// TestOutages: a member that is stopped refuses, one that is paused keeps silent, and both come back as they were.
func TestOutages(t *testing.T) {
	fleet := shared.Start(t)
	member := fleet.Member("member2")
	kept := fleettest.ConfigMap(memberNamespace(t, member), "kept", nil)
	fleettest.Create(t, member, kept)
	answers := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return member.Get(ctx, client.ObjectKeyFromObject(kept), kept)
	}

	fleet.PauseMember(t, "member2")
	if err := answers(300 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused member answered: %v", err)
	}
	fleet.ResumeMember(t, "member2")
	if err := answers(fleettest.Patience); err != nil {
		t.Errorf("after the pause: %v", err)
	}

	fleet.StopMember(t, "member2")
	if fleet.MemberPID(t, "member2") != 0 {
		t.Error("a stopped member still has a process")
	}
	if err := answers(fleettest.Patience); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped member did not refuse: %v", err)
	}
	fleet.StartMember(t, "member2")
	if err := answers(fleettest.Patience); err != nil {
		t.Errorf("after the stop: %v", err)
	}

	fleet.KillMember(t, "member2")
	if err := fleet.Process().WaitFor(t.Context(), "member2 has ended (signal: killed); start it again with"); err != nil {
		t.Error(err)
	}
	if r := fleettest.Flagship(t, "member", "list", "--data-dir", fleet.Dir); !strings.Contains(r.Stdout, "member2   Stopped") {
		t.Errorf("member list says:\n%s%s", r.Stdout, r.Stderr)
	}
	fleet.StartMember(t, "member2")
	if err := answers(fleettest.Patience); err != nil {
		t.Errorf("after the kill: %v", err)
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	fleet := shared.Start(t)
	for _, file := range []string{
		playground.HubKubeconfig(fleet.Dir), playground.MemberKubeconfig(fleet.Dir, "member1"),
		playground.MemberKubeconfig(fleet.Dir, "member2"), filepath.Join(fleet.Dir, "control.sock"),
	} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", file, info.Mode(), err)
		}
	}
}

// KUBECONFIG may name several files: clusters, users and contexts of the same name would hide each other.
func TestMergedKubeconfigsStayApart(t *testing.T) {
	fleet := shared.Start(t)
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: []string{
		playground.HubKubeconfig(fleet.Dir), playground.MemberKubeconfig(fleet.Dir, "member1"), playground.MemberKubeconfig(fleet.Dir, "member2"),
	}}
	merged, err := rules.Load()
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]bool{}
	for _, name := range []string{"hub", "member1", "member2"} {
		config, err := clientcmd.NewNonInteractiveClientConfig(*merged, name, nil, rules).ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		servers[config.Host] = true
		if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{}); err != nil {
			t.Errorf("context %s: %v", name, err)
		}
	}
	if len(servers) != 3 || merged.CurrentContext != "hub" {
		t.Errorf("the contexts lead to %v, the current one is %q", servers, merged.CurrentContext)
	}
}

// TestMembersStaySmall: several must fit on a laptop. What was used for a moment is returned to the system after a while.
func TestMembersStaySmall(t *testing.T) {
	const limitMB = 550
	fleet := shared.Start(t)
	for _, m := range fleet.Members {
		pid := fleet.MemberPID(t, m.Name)
		fleettest.Eventually(t, fmt.Sprintf("%s takes at most %d MB", m.Name, limitMB), func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				t.Skipf("memory is not to be seen here: %v", err)
			}
			_, value, _ := strings.Cut(string(status), "VmRSS:")
			kib, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kib/1000 <= limitMB
		})
	}
}

// TestRefusals: what cannot start says why in one line, and harms nothing.
func TestRefusals(t *testing.T) {
	fleet := shared.Start(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	file := filepath.Join(t.TempDir(), "file")
	damaged := t.TempDir()
	for path, text := range map[string]string{file: "", filepath.Join(damaged, "playground.json"): "{"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty := t.TempDir()
	cases := map[string]struct {
		args []string
		want string
	}{
		"DirInUse":       {[]string{"up", "--data-dir", fleet.Dir}, fmt.Sprintf("pid %d", fleet.Process().PID())},
		"PortInUse":      {[]string{"up", "--data-dir", t.TempDir(), "--port", port}, "port " + port + " of the control plane is in use"},
		"NotADirectory":  {[]string{"up", "--data-dir", file}, "cannot use " + file},
		"UnwritableDir":  {[]string{"up", "--data-dir", "/proc/not/writable"}, "cannot use /proc/not/writable"},
		"DamagedSpec":    {[]string{"up", "--data-dir", damaged}, "damaged"},
		"TooManyMembers": {[]string{"up", "--data-dir", empty, "--members", "999"}, "too many"},
		"NoPlayground":   {[]string{"member", "stop", "member1", "--data-dir", empty}, "no playground runs in " + empty},
		"NoSuchMember":   {[]string{"member", "stop", "member9", "--data-dir", fleet.Dir}, `no member "member9"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { fleettest.ExpectRefusal(t, tc.want, tc.args...) })
	}
	if err := fleet.Hub.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
		t.Errorf("after the refusals: %v", err)
	}
}

// TestKilledPlaygroundLeavesNothingRunningAndLosesNothing runs beside the shared one, in a directory of its own.
func TestKilledPlaygroundLeavesNothingRunningAndLosesNothing(t *testing.T) {
	shared.Start(t)
	fleet := fleettest.Start(t, fleettest.Options{Members: 1, Bare: true})
	fleettest.ExpectRefusal(t, "has 1 members", "up", "--data-dir", copySpec(t, fleet.Dir), "--members", "0")
	member := fleet.Member("member1")
	kept := fleettest.ConfigMap("default", "kept", map[string]string{"a": "b"})
	for _, c := range []*fleettest.Cluster{fleet.Hub, member} {
		fleettest.Create(t, c, kept.DeepCopy())
	}
	pid, hubURL, memberURL := fleet.MemberPID(t, "member1"), fleet.Hub.Config.Host, member.Config.Host

	fleet.PauseMember(t, "member1") // a stopped process does not even read that its parent is gone
	fleet.Kill(t)
	playground.ExpectProcessGone(t, pid)

	fleet.Restart(t)
	for _, c := range []*fleettest.Cluster{fleet.Hub, member} { // the clients of before: addresses and credentials hold
		fleettest.ExpectEventually(t, c, kept, fleettest.Exists)
	}
	if fleet.Hub.Config.Host != hubURL || member.Config.Host != memberURL {
		t.Error("addresses changed")
	}
	pid = fleet.MemberPID(t, "member1")
	// A member that a user removed stays removed.
	fleettest.Delete(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}})
	fleettest.ExpectGone(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}})
	fleet.Stop(t)
	playground.ExpectProcessGone(t, pid)
	fleet.Restart(t)
	fleettest.ExpectAbsent(t, fleet.Hub, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}})
}

// TestAMemberInPullMode: its agent is registered once, stops and starts with the member and the playground, and is listed. It takes 35 s beside
// other tests, for the starts of a playground.
func TestAMemberInPullMode(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a fleet")
	}
	fleet := fleettest.Start(t, fleettest.Options{Members: 1, Bare: true, Args: []string{"--pull", "member1"}})
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}
	if err := fleet.Hub.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil || cluster.Spec.SyncMode != clusterv1alpha1.Pull {
		t.Fatalf("the Cluster is in %q mode: %v", cluster.Spec.SyncMode, err)
	}
	arrives := func(name string) {
		t.Helper()
		template := fleettest.ConfigMap("default", name, nil)
		fleettest.Create(t, fleet.Hub, fleettest.Policy("default", name, fleettest.To("member1"), template), template)
		fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.ConfigMap("default", name, nil), fleettest.Exists)
	}
	agent := func() int {
		t.Helper()
		members, err := playground.Control(t.Context(), fleet.Dir, playground.List, "")
		if err != nil || len(members) != 1 || members[0].AgentPID == 0 {
			t.Fatalf("no agent is listed: %+v, %v", members, err)
		}
		return members[0].AgentPID
	}
	arrives("first")

	pid := agent()
	fleet.StopMember(t, "member1")
	playground.ExpectProcessGone(t, pid)
	fleet.StartMember(t, "member1")
	arrives("after-a-stop")

	pid = agent()
	fleet.Kill(t)
	playground.ExpectProcessGone(t, pid)
	fleet.Restart(t)
	arrives("after-a-restart")
	agent()
	fleettest.ExpectRefusal(t, `there is no member "member2"`, "up", "--data-dir", copySpec(t, fleet.Dir), "--pull", "member2")
}

// copySpec makes a directory with the spec of the same fleet as another, which goes on running.
func copySpec(t *testing.T, from string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(from, "playground.json"))
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.WriteFile(filepath.Join(to, "playground.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestHubAlone: --members 0 is a control plane and nothing else, and says so again after a restart.
func TestHubAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a fleet")
	}
	fleet := fleettest.Start(t, fleettest.Options{})
	if !strings.Contains(fleet.Process().Output(), "0 members") {
		t.Errorf("it said:\n%s", fleet.Process().Output())
	}
	fleet.Stop(t)
	fleet.Restart(t)
	if _, err := os.Stat(playground.MemberKubeconfig(fleet.Dir, "member1")); !os.IsNotExist(err) {
		t.Errorf("a member appeared: %v", err)
	}
}

// TestDemo is the first thing a person tries.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a fleet")
	}
	r := fleettest.Flagship(t, "demo", "--once", "--timeout", "4m")
	if r.Code != 0 || !strings.Contains(r.Stdout, "deployment/nginx: 5/5 ready") {
		t.Errorf("ended with code %d:\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestDemoReportsWhyNothingArrives: a reason, not a timeout, is what a person can act on.
func TestDemoReportsWhyNothingArrives(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	template := fleettest.ConfigMap(ns, "stranded", nil)
	template.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	policy := fleettest.Policy(ns, "stranded", fleettest.To("atlantis"), template)
	policy.TypeMeta = metav1.TypeMeta{APIVersion: "policy.karmada.io/v1alpha1", Kind: "PropagationPolicy"}
	var manifests [][]byte
	for _, object := range []any{template, policy} {
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, text)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("time is up"))
	defer cancel()
	err := demo.Run(ctx, demo.Config{Hub: fleet.Hub.Config, Namespace: ns, Manifests: manifests, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "time is up: configmap/stranded: it is not scheduled (") {
		t.Errorf("got %v, want the scheduler's reason", err)
	}
}

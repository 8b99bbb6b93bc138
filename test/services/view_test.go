package services_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestOneViewOverMembers: the commands that read many clusters, of both modes, and what is left of them when a cluster is gone. It takes 35 s
// beside other tests, for many commands.
func TestOneViewOverMembers(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	clusters := []string{"member1", "member2", "member3"}
	web := fleettest.Deployment(ns, "web", 1)
	fleettest.Create(t, fleet.Hub, web, fleettest.Policy(ns, "web", fleettest.To(clusters...), web))
	for _, name := range clusters {
		fleettest.ExpectEventually(t, fleet.Member(name), fleettest.Deployment(ns, "web", 1), fleettest.Available)
		fleettest.ExpectListed(t, fleet.Member(name), &corev1.EventList{}, ns, func(list *corev1.EventList) error {
			if !slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Reason == "ScalingReplicaSet" }) {
				return errors.New("there is no event of the Deployment")
			}
			return nil
		})
	}
	at := func(args ...string) []string { // flags are before the command of exec
		dash := slices.Index(append(args, "--"), "--")
		return slices.Concat(args[:dash], []string{"-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig, "--request-timeout", "1m"}, args[dash:])
	}
	run := func(t *testing.T, args ...string) fleettest.Result {
		t.Helper()
		r := fleettest.Flagship(t, at(args...)...)
		if r.Code != 0 || r.Stderr != "" {
			t.Fatalf("flagship %v ended with %d: %s", args, r.Code, r.Stderr)
		}
		return r
	}

	t.Run("Get", func(t *testing.T) {
		for args, want := range map[string][]string{
			"get deployments --all-clusters":                                                                        {"NAME CLUSTER READY", "web member1 1/1", "web member2 1/1", "web member3 1/1"},
			"get deploy/web -o wide --clusters member3,member1":                                                     {"NAME CLUSTER READY", "web member1 1/1", "web member3 1/1"},
			"get deployments --field-selector metadata.name=none":                                                   {},
			"get deploy -l app=web -o name --sort-by .metadata.uid":                                                 {"deployment.apps/web", "deployment.apps/web", "deployment.apps/web"},
			`get deploy web -o jsonpath={.items[*].metadata.annotations.resource\.karmada\.io/cached-from-cluster}`: {"member1 member2 member3"},
		} {
			r := fleettest.Flagship(t, at(strings.Fields(args)...)...)
			var got []string
			for line := range strings.Lines(r.Stdout) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if r.Code != 0 || !slices.EqualFunc(got, want, strings.Contains) {
				t.Errorf("flagship %s ended with %d and printed\n%s%s", args, r.Code, r.Stdout, r.Stderr)
			}
		}
		if r := fleettest.Flagship(t, at("get", "deploy", "none")...); r.Code != 1 || !strings.Contains(r.Stderr, "in none of the 3 clusters") {
			t.Errorf("an object that is nowhere: %d, %s", r.Code, r.Stderr)
		}
	})
	t.Run("Describe", func(t *testing.T) {
		if text := run(t, "describe", "deployment", "web").Stdout; strings.Count(text, "Cluster:  member") != 3 || strings.Count(text, "ScalingReplicaSet") != 3 {
			t.Errorf("it printed\n%s", text)
		}
	})
	t.Run("DescribeASelector", func(t *testing.T) {
		if text := run(t, "describe", "pods", "-l", "app=web", "--clusters", "member1,member3").Stdout; strings.Count(text, "Cluster:  member") != 2 || !strings.Contains(text, "Image:") {
			t.Errorf("it printed\n%s", text)
		}
	})
	t.Run("Events", func(t *testing.T) {
		for _, about := range []string{"Deployment/web", "deploy/web"} {
			if text := run(t, "events", "--for", about, "--types", "Normal").Stdout; strings.Count(text, "Scaled up replica set") != 3 {
				t.Errorf("it printed\n%s", text)
			}
		}
		c := begin(t, at("events", "-w", "--for", "deploy/web")...)
		for range clusters {
			c.expect("Scaled up replica set")
		}
		fleettest.Create(t, fleet.Member("member3"), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web.later"}, InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Namespace: ns, Name: "web"},
			Type: corev1.EventTypeWarning, Reason: "Later", Message: "a later event", FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		})
		if line := c.expect("a later event"); !strings.Contains(line, "member3") {
			t.Errorf("it printed %s", line)
		}
		c.interrupt()
	})
	t.Run("Top", func(t *testing.T) {
		var text string
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(context.Context) (bool, error) {
			text = run(t, "top", "pods", "--sort-by", "cpu", "-l", "app=web").Stdout
			return strings.Count(text, "\n") == 4, nil // a member's metrics are those of pods that it has seen
		})
		if err != nil {
			t.Errorf("it printed\n%s", text)
		}
		if text := run(t, "top", "nodes").Stdout; strings.Count(text, "%") < 10 {
			t.Errorf("it printed\n%s", text)
		}
	})
	t.Run("Logs", func(t *testing.T) {
		text := run(t, "logs", "deploy/web", "--tail", "1").Stdout
		for _, name := range clusters {
			if strings.Count(text, "["+name+"/web-") != 1 {
				t.Errorf("the log of %s is not once in\n%s", name, text)
			}
		}
	})
	t.Run("LogsOfASelector", func(t *testing.T) {
		if text := run(t, "logs", "-l", "app=web", "--clusters", "member3").Stdout; strings.Count(text, "[member3/web-") == 0 || strings.Contains(text, "member1") {
			t.Errorf("it printed\n%s", text)
		}
	})
	t.Run("LogsAreFollowedUntilCtrlC", func(t *testing.T) {
		until(t, clusters, func() {}, at("logs", "-f", "deploy/web")...)
	})
	t.Run("LogsOfLaterPodsAreFollowed", func(t *testing.T) { logsOfLaterPods(t, fleet, ns, at) })
	t.Run("AWatchEndsWithCtrlC", func(t *testing.T) {
		until(t, clusters, func() {
			fleettest.Update(t, fleet.Hub, web, func(d *appsv1.Deployment) { d.Labels = map[string]string{"seen": "changed"} })
		}, at("get", "deploy/web", "-w", "-L", "seen")...)
	})
	t.Run("Exec", func(t *testing.T) {
		if out := run(t, "exec", "deploy/web", "--clusters", "member3", "--", "echo", "hello").Stdout; out != "hello\n" {
			t.Errorf("it printed %q", out)
		}
		if r := fleettest.Flagship(t, at("exec", "deploy/web", "--clusters", "member1", "--", "unknown")...); r.Code != 127 {
			t.Errorf("a command that ends with 127 ended with %d: %s", r.Code, r.Stderr)
		}
		if r := fleettest.Flagship(t, at("exec", "deploy/web", "--", "true")...); r.Code != 1 || !strings.Contains(r.Stderr, "member1, member2, member3") {
			t.Errorf("a workload in three clusters: %d, %s", r.Code, r.Stderr)
		}
	})
	t.Run("Attach", func(t *testing.T) {
		c := begin(t, at("attach", "deploy/web", "--clusters", "member3")...)
		c.expect("started with image") // it ends with the test: what is attached runs on
		if r := fleettest.Flagship(t, at("attach", "deploy/web")...); r.Code != 1 || !strings.Contains(r.Stderr, "member1, member2, member3") {
			t.Errorf("a workload in three clusters: %d, %s", r.Code, r.Stderr)
		}
	})
	t.Run("PortForward", func(t *testing.T) {
		c := begin(t, at("port-forward", "deploy/web", ":80", "--clusters", "member3")...)
		address := strings.Fields(c.expect("Forwarding from 127.0.0.1:"))[2]
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(page), "cluster: member3\n") {
			t.Errorf("the page is %q, %v", page, err)
		}
		c.interrupt()
	})
	t.Run("Promote", func(t *testing.T) { promote(t, fleet, ns, at) })
	t.Run("Apply", func(t *testing.T) { apply(t, fleet, ns) })
	t.Run("Explain", func(t *testing.T) { explainIn(t, fleet, ns) })
	t.Run("OneIsKilled", func(t *testing.T) {
		fleet.KillMember(t, "member2")
		// Each command prints what the others have, names the one that failed, and ends with 1.
		for args, lines := range map[string]string{
			"describe deploy/web": "Cluster:  member", "logs deploy/web --tail 1": "/web-", "events --for deploy/web": "Scaled up replica set", "top pods -l app=web": "web-",
			"get pods -l app=web --sort-by .metadata.name": "web-",
		} {
			r := fleettest.Flagship(t, at(strings.Fields(args)...)...)
			if r.Code != 1 || strings.Count(r.Stdout, lines) < 2 || !strings.Contains(r.Stderr, "cluster member2: ") || !strings.Contains(r.Stderr, "\nerror: 1 of 3 clusters failed: member2\n") {
				t.Errorf("flagship %s ended with %d and printed\n%s%s", args, r.Code, r.Stdout, r.Stderr)
			}
		}
		if out := run(t, "exec", "deploy/web", "--clusters", "member3", "--", "echo", "hello").Stdout; out != "hello\n" {
			t.Errorf("exec in another member printed %q", out)
		}
		r := fleettest.Flagship(t, at("get", "deploy/web")...)
		if r.Code != 1 || !strings.Contains(r.Stderr, "cluster member2: ") || !strings.Contains(r.Stderr, "\nerror: 1 of 3 clusters failed: member2\n") ||
			!strings.Contains(r.Stdout, "member1") || strings.Contains(r.Stdout, "member2") || !strings.Contains(r.Stdout, "member3") {
			t.Errorf("it ended with %d and printed\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
	})
}

// until runs a command until its output has a line with each cluster, before and after the change, and interrupts it.
func until(t *testing.T, clusters []string, change func(), args ...string) {
	t.Helper()
	binary, err := fleettest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	expect := func(also string) {
		t.Helper()
		missing := slices.Clone(clusters)
		for len(missing) > 0 && lines.Scan() {
			missing = slices.DeleteFunc(missing, func(name string) bool {
				return strings.Contains(lines.Text(), name) && strings.Contains(lines.Text(), also)
			})
		}
		if len(missing) > 0 {
			t.Errorf("it ended without %v: %s", missing, errs.String())
		}
	}
	expect("web")
	change()
	if slices.Contains(args, "-w") {
		expect("changed")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until the pipe is closed, as Wait requires it
	}
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("it ended with %v: %s", err, errs.String())
	}
}

// command is a command that runs until it is interrupted.
type command struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	errs  strings.Builder
}

// begin starts a command. It ends with the test at the latest.
func begin(t *testing.T, args ...string) *command {
	t.Helper()
	binary, err := fleettest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
	t.Cleanup(cancel)
	c := &command{t: t, cmd: exec.CommandContext(ctx, binary, args...)}
	c.cmd.Stderr = &c.errs
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	return c
}

// expect returns the next line with a text.
func (c *command) expect(text string) string {
	c.t.Helper()
	for c.lines.Scan() {
		if strings.Contains(c.lines.Text(), text) {
			return c.lines.Text()
		}
	}
	c.t.Fatalf("%v ended without %q: %v, %s", c.cmd.Args, text, c.cmd.Wait(), c.errs.String())
	return ""
}

// interrupt ends the command as Ctrl-C does.
func (c *command) interrupt() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		c.t.Fatal(err)
	}
	for c.lines.Scan() { // until the pipe is closed, as Wait requires it
	}
	if err := c.cmd.Wait(); err != nil || c.errs.Len() > 0 {
		c.t.Errorf("%v ended with %v: %s", c.cmd.Args, err, c.errs.String())
	}
}

// logsOfLaterPods: a workload comes to a cluster that does not have it yet, and gets one more pod in each.
func logsOfLaterPods(t *testing.T, fleet *fleettest.Fleet, ns string, at func(...string) []string) {
	later := fleettest.Deployment(ns, "later", 1)
	policy := fleettest.Policy(ns, "later", fleettest.To("member1"), later)
	fleettest.Create(t, fleet.Hub, later, policy)
	fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Deployment(ns, "later", 1), fleettest.Available)
	c := begin(t, at("logs", "-f", "deploy/later")...)
	c.expect("[member1/later-")
	fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) { p.Spec.Placement = fleettest.To("member1", "member3") })
	first := c.expect("[member3/later-")
	fleettest.Update(t, fleet.Hub, later, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) })
	for second := first; second == first; { // a pod has one line, of which there may be more
		line := c.expect("[member3/later-")
		second = strings.Fields(line)[0]
		if second == strings.Fields(first)[0] {
			second = first
		}
	}
	c.interrupt()
}

// promote brings a Deployment and a Service of a member under management without a change of their spec.
func promote(t *testing.T, fleet *fleettest.Fleet, ns string, at func(...string) []string) {
	member := fleet.Member("member1")
	fleettest.Create(t, member, fleettest.Deployment(ns, "own", 2), fleettest.Service(ns, "own"))
	deployment := fleettest.ExpectEventually(t, member, fleettest.Deployment(ns, "own", 2), fleettest.Available)
	service := fleettest.ExpectEventually(t, member, fleettest.Service(ns, "own"), fleettest.Exists)
	if r := fleettest.Flagship(t, at("promote", "deploy/own", "--cluster", "member1", "--dry-run")...); r.Code != 0 || !strings.Contains(r.Stdout, "kind: PropagationPolicy") ||
		!strings.Contains(r.Stdout, "kind: Deployment") || strings.Contains(r.Stdout, "uid:") {
		t.Fatalf("a dry run ended with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	fleettest.ExpectAbsent(t, fleet.Hub, fleettest.Deployment(ns, "own", 2))
	for _, kind := range []string{"deployment", "svc"} {
		if r := fleettest.Flagship(t, at("promote", kind, "own", "--cluster", "member1")...); r.Code != 0 {
			t.Fatalf("promote %s ended with %d: %s", kind, r.Code, r.Stderr)
		}
	}
	// The command has waited.
	for _, object := range []client.Object{fleettest.Deployment(ns, "own", 2), fleettest.Service(ns, "own")} {
		if err := member.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetAnnotations()[workv1alpha1.AdoptedAnnotation] == "" {
			t.Errorf("%T is not adopted when the command ends: %v, %v", object, object.GetAnnotations(), err)
		}
	}
	adopted := func(annotations map[string]string) error {
		if annotations[workv1alpha1.AdoptedAnnotation] == "" {
			return fmt.Errorf("it is not adopted: %v", annotations)
		}
		return nil
	}
	now := fleettest.ExpectEventually(t, member, fleettest.Deployment(ns, "own", 2), func(d *appsv1.Deployment) error { return adopted(d.Annotations) })
	// A new annotation of a Deployment is a new generation.
	if now.UID != deployment.UID || !equality.Semantic.DeepEqual(now.Spec, deployment.Spec) {
		t.Errorf("the Deployment was %s with %+v and is %s with %+v", deployment.UID, deployment.Spec, now.UID, now.Spec)
	}
	address := fleettest.ExpectEventually(t, member, fleettest.Service(ns, "own"), func(s *corev1.Service) error { return adopted(s.Annotations) })
	if address.UID != service.UID || address.Spec.ClusterIP != service.Spec.ClusterIP {
		t.Errorf("the Service was %s at %s and is %s at %s", service.UID, service.Spec.ClusterIP, address.UID, address.Spec.ClusterIP)
	}
	fleettest.ExpectEventually(t, fleet.Hub, fleettest.Deployment(ns, "own", 2), fleettest.Available)
	if r := fleettest.Flagship(t, at("promote", "deploy", "own", "--cluster", "member1")...); r.Code != 1 || !strings.Contains(r.Stderr, "managed by a control plane already") {
		t.Errorf("a second time: %d, %s", r.Code, r.Stderr)
	}
}

// apply writes objects to the control plane, with a policy for each that brings it to the named clusters.
func apply(t *testing.T, fleet *fleettest.Fleet, ns string) {
	file := filepath.Join(t.TempDir(), "app.yaml")
	manifests := `apiVersion: v1
kind: ConfigMap
metadata: {name: applied}
data: {colour: %s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: applied-` + ns + `}
rules: []
`
	write := func(colour string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, manifests, colour), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flagship := func(args ...string) fleettest.Result {
		return fleettest.Flagship(t, slices.Concat([]string{"apply", "-f", file, "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig}, args)...)
	}
	applied := fleettest.ConfigMap(ns, "applied", nil)
	write("red")
	if r := flagship("--clusters", "member3,member1", "--dry-run"); r.Code != 0 || strings.Count(r.Stdout, "(dry run)") != 2 {
		t.Errorf("a dry run ended with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	fleettest.ExpectAbsent(t, fleet.Hub, applied)
	want := "configmap/applied applied, propagated by propagationpolicy/applied-configmap\nclusterrole/applied-" + ns +
		" applied, propagated by clusterpropagationpolicy/applied-" + ns + "-clusterrole\n"
	if r := flagship("--clusters", "member3,member1"); r.Code != 0 || r.Stdout != want {
		t.Fatalf("it ended with %d and printed\n%s%swant\n%s", r.Code, r.Stdout, r.Stderr, want)
	}
	colour := func(want string) func(*corev1.ConfigMap) error {
		return func(c *corev1.ConfigMap) error {
			if c.Data["colour"] != want {
				return fmt.Errorf("the colour is %s, want %s", c.Data["colour"], want)
			}
			return nil
		}
	}
	for _, name := range []string{"member1", "member3"} {
		fleettest.ExpectEventually(t, fleet.Member(name), fleettest.ConfigMap(ns, "applied", nil), colour("red"))
		fleettest.ExpectEventually(t, fleet.Member(name), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "applied-" + ns}}, fleettest.Exists)
	}
	fleettest.ExpectAbsent(t, fleet.Member("member2"), fleettest.ConfigMap(ns, "applied", nil))
	write("blue")
	if r := flagship("--all-clusters"); r.Code != 0 {
		t.Fatalf("a second time: %d, %s", r.Code, r.Stderr)
	}
	for _, member := range fleet.Members {
		fleettest.ExpectEventually(t, member, fleettest.ConfigMap(ns, "applied", nil), colour("blue"))
	}
	// What others own is theirs, unless the command takes it over.
	fleettest.Update(t, fleet.Hub, applied, func(c *corev1.ConfigMap) { c.Data = map[string]string{"colour": "green"} })
	if r := flagship(); r.Code != 1 || !strings.Contains(r.Stderr, "--force-conflicts") || !strings.Contains(r.Stdout, "clusterrole/applied-"+ns+" applied\n") {
		t.Errorf("a conflict ended with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if r := flagship("--force-conflicts"); r.Code != 0 {
		t.Errorf("with force it ended with %d: %s", r.Code, r.Stderr)
	}
	for args, reason := range map[string]string{"--clusters member1 --all-clusters": "exclude each other", "-n none-" + ns: "kubectl create namespace none-" + ns} {
		if r := flagship(strings.Fields(args)...); r.Code == 0 || !strings.Contains(r.Stderr, reason) {
			t.Errorf("%s ended with %d: %s", args, r.Code, r.Stderr)
		}
	}
}

// explainIn explains an object of a kind that only one member serves.
func explainIn(t *testing.T, fleet *fleettest.Fleet, ns string) {
	member := fleet.Member("member3")
	object := func(text string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), u); err != nil {
			t.Fatal(err)
		}
		return u
	}
	fleettest.Create(t, member, object(`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gadgets.view.example.io},
  spec: {group: view.example.io, scope: Namespaced, names: {plural: gadgets, kind: Gadget, shortNames: [gdg]},
    versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`))
	fleettest.Eventually(t, "the object is created", func() bool {
		one := object(`{apiVersion: view.example.io/v1, kind: Gadget, metadata: {name: one, namespace: ` + ns + `}, spec: {size: 1}}`)
		return member.Create(t.Context(), one, client.FieldOwner("gadget-maker")) == nil
	})
	explain := func(args ...string) fleettest.Result {
		return fleettest.Flagship(t, slices.Concat([]string{"explain", "-n", ns, "--kubeconfig", fleet.Hub.Kubeconfig}, args)...)
	}
	for _, kind := range []string{"gadget", "gdg", "gadgets.view.example.io"} {
		var r fleettest.Result
		fleettest.Eventually(t, "discovery of the member shows the kind", func() bool {
			r = explain(kind+"/one", "--in", "member3")
			return r.Code == 0 && strings.Contains(r.Stdout, ".spec.size")
		})
		for _, text := range []string{"Gadget " + ns + "/one", "no control plane manages it", "owns 1 fields (gadget-maker", ".spec.size"} {
			if r.Code != 0 || !strings.Contains(r.Stdout, text) {
				t.Errorf("%s ended with %d and printed no %q:\n%s%s", kind, r.Code, text, r.Stdout, r.Stderr)
			}
		}
	}
	// A node is of a kind that the control plane serves and does not propagate.
	if r := explain("node/member3-node-1", "--in", "member3"); r.Code != 0 || !strings.Contains(r.Stdout, "no control plane manages it") {
		t.Errorf("a node: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	for args, reason := range map[string]string{
		"gadget/two --in member3":  "flagship get gadgets -A --clusters member3",
		"frigate/one --in member3": "neither the control plane nor cluster member3 serves frigate",
		"gadget/one":               "the control plane serves no gadget",
	} {
		if r := explain(strings.Fields(args)...); r.Code != 1 || !strings.Contains(r.Stderr, reason) {
			t.Errorf("%s ended with %d: %s", args, r.Code, r.Stderr)
		}
	}
}

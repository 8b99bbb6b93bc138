package pipeline_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// TestDriftOfWhatIsDeleted: an object that others delete in a member is created again, which is in the report with its time, also if a
// finalizer kept it for a while.
func TestDriftOfWhatIsDeleted(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	member := fleet.Member("member1")
	first := fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	if objects, err := reportOf(t.Context(), fleet.Hub, ns, "settings"); err != nil || len(objects) != 0 {
		t.Fatalf("what was created once is reported: %+v, %v", objects, err)
	}
	isNew := func(before *corev1.ConfigMap) func(*corev1.ConfigMap) error {
		return func(c *corev1.ConfigMap) error {
			if c.UID == before.UID || c.DeletionTimestamp != nil {
				return fmt.Errorf("it is %s, as before", c.UID)
			}
			return nil
		}
	}
	createdAgain := func(o *fleetv1alpha1.DriftedObject) error {
		if len(o.Fields) != 1 {
			return fmt.Errorf("the fields are %+v", o.Fields)
		}
		if f := o.Fields[0]; f.Path != "/" || f.Outcome != fleetv1alpha1.DriftCreatedAgain || f.Time == nil || f.Manager != "" || f.Wanted+f.Found != "" {
			return fmt.Errorf("the field is %+v", f)
		}
		return nil
	}
	// A finalizer keeps it for a while. A new version of the template cannot be applied meanwhile, so that the Work does not report it applied.
	fleettest.Update(t, member, first, func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.io/wait"} })
	fleettest.Delete(t, member, first)
	fleettest.Update(t, fleet.Hub, settings.DeepCopy(), func(c *corev1.ConfigMap) { c.Data["a"] = "next" })
	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), workIs("Applied", metav1.ConditionFalse, ""))
	fleettest.Update(t, member, settings.DeepCopy(), func(c *corev1.ConfigMap) { c.Finalizers = nil })
	second := fleettest.ExpectEventually(t, member, settings.DeepCopy(), isNew(first))
	if o := driftOf(t, fleet, ns, "settings", createdAgain); o.PutBack != 1 || len(o.Recent) != 1 || o.Cluster != "member1" {
		t.Errorf("the report is %+v", o)
	}
	expectWarning(t, fleet.Hub, settings, "ObjectCreatedAgain", `member1: ConfigMap settings: was deleted there by others, and is created again`)
	out := command(t, fleet.Hub.Kubeconfig, "drift", "configmap/settings", "-n", ns)
	if !strings.Contains(out, "  created again  ") || !strings.Contains(out, " ago, after others deleted it\n") {
		t.Errorf("the command prints\n%s", out)
	}

	// Adopting has nothing to take from it, and it is no difference that stands.
	if r := fleettest.Flagship(t, "drift", "adopt", "configmap/settings", "-n", ns, "--cluster", "member1", "--kubeconfig", fleet.Hub.Kubeconfig); r.Code == 0 || !strings.Contains(r.Stderr, "no field of the object is known to differ there") {
		t.Errorf("adopting what was created again: %+v", r)
	}
	noDrift(t, fleet, ns, "settings")
	fleettest.Delete(t, member, second)
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), isNew(second))
	driftOf(t, fleet, ns, "settings", func(o *fleetv1alpha1.DriftedObject) error {
		if o.PutBack != 2 {
			return fmt.Errorf("it was created %d times again", o.PutBack)
		}
		return createdAgain(o)
	})
	fleettest.Delete(t, fleet.Hub, settings)
	fleettest.ExpectGone(t, member, settings.DeepCopy())
}

// changeRepeatedly changes a ConfigMap in a member whenever it does not have the value of a controller there, which it checks every second, until the
// context ends. It returns how often it changed it.
func changeRepeatedly(ctx context.Context, member *fleettest.Cluster, settings *corev1.ConfigMap) (changes int) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		found := &corev1.ConfigMap{}
		if err := member.Get(ctx, client.ObjectKeyFromObject(settings), found); err != nil || found.Data["a"] == "theirs" {
			return
		}
		// An end in the middle of it would leave open whether it was made.
		if member.Patch(context.WithoutCancel(ctx), found, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"theirs"}}`)), client.FieldOwner("a-controller")) == nil {
			changes++
		}
	}, time.Second)
	return changes
}

// TestDriftOfAControllerThatRepeatsItsChange: the field is put back again and again, with growing pauses, and the Work reports the dispute. When the
// controller stops, the field keeps the desired value.
func TestDriftOfAControllerThatRepeatsItsChange(t *testing.T) {
	t.Parallel()
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	fleettest.Create(t, fleet.Hub, settings, fleettest.Policy(ns, "settings", fleettest.To("member1"), settings))
	member := fleet.Member("member1")
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), fleettest.Exists)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- changeRepeatedly(ctx, member, settings) }()
	defer func() {
		if stop(); ended != nil {
			<-ended
		}
	}()

	fleettest.ExpectEventually(t, fleet.Hub, work("member1", "ConfigMap", ns, "settings"), workIs("Drifted", metav1.ConditionTrue, "Disputed"))
	o := driftOf(t, fleet, ns, "settings", func(o *fleetv1alpha1.DriftedObject) error {
		if o.PutBack < 8 || len(o.Recent) != 8 {
			return fmt.Errorf("it was put back %d times: %+v", o.PutBack, o.Recent)
		}
		return nil
	})
	// The sixth repair waits for a second at least, the seventh for two, the eighth for four: without pauses each would follow the change,
	// which is made every second. Times in the answer have whole seconds.
	if pause := o.Recent[0].Time.Sub(o.Recent[1].Time.Time); pause < 3*time.Second {
		t.Errorf("repair %d came %s after the one before it", o.PutBack, pause)
	}
	if o.Recent[0].Manager != "a-controller" {
		t.Errorf("the report is %+v", o)
	}
	out := command(t, fleet.Hub.Kubeconfig, "drift", "configmap/settings", "-n", ns)
	if !strings.Contains(out, "  put back  /data/a  by a-controller") || !strings.Contains(out, fmt.Sprintf("  put back %d times; lately ", o.PutBack)) {
		t.Errorf("the command prints\n%s", out)
	}

	stop()
	changes := <-ended
	ended = nil
	last := driftOf(t, fleet, ns, "settings", func(o *fleetv1alpha1.DriftedObject) error {
		if int(o.PutBack) < changes {
			return fmt.Errorf("it was put back %d times, and changed %d times", o.PutBack, changes)
		}
		return nil
	})
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "ours"}))
	// What the control plane writes next arrives at once, and is no repair.
	fleettest.Update(t, fleet.Hub, settings, func(c *corev1.ConfigMap) { c.Data["b"] = "next" })
	fleettest.ExpectEventually(t, member, settings.DeepCopy(), dataIs(map[string]string{"a": "ours", "b": "next"}))
	if o := driftOf(t, fleet, ns, "settings", func(*fleetv1alpha1.DriftedObject) error { return nil }); o.PutBack != last.PutBack {
		t.Errorf("it was put back %d times, after the controller had stopped at %d", o.PutBack, last.PutBack)
	}
}

// driftsFor gives a user the role flagship-drift and further rights on the control plane, and returns a client of the user.
func driftsFor(t *testing.T, fleet *fleettest.Fleet, user string, rules ...rbacv1.PolicyRule) *fleettest.Cluster {
	t.Helper()
	fleettest.Create(t, fleet.Hub, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drift-" + user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "flagship-drift"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
	if len(rules) > 0 {
		fleet.Hub.ClusterRights(t, user, rules...)
	}
	as := fleet.Hub.As(t, rest.ImpersonationConfig{UserName: user})
	as.AwaitRight(t, authorizationv1.ResourceAttributes{Verb: "create", Group: fleetv1alpha1.GroupName, Resource: "driftreports"})
	return as
}

// inMember1 gives a user the proxy of member1, and rights there.
func inMember1(t *testing.T, fleet *fleettest.Fleet, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	fleet.Hub.ClusterRights(t, user, rbacv1.PolicyRule{
		APIGroups: []string{clusterv1alpha1.GroupName}, Resources: []string{"clusters/proxy"}, ResourceNames: []string{"member1"}, Verbs: []string{"*"},
	})
	fleet.Member("member1").ClusterRights(t, user, rules...)
}

// drifted makes ConfigMap settings of a namespace differ in member1.
func drifted(t *testing.T, fleet *fleettest.Fleet, ns string) {
	t.Helper()
	settings := fleettest.ConfigMap(ns, "settings", map[string]string{"a": "ours"})
	policy := fleettest.Policy(ns, "settings", fleettest.To("member1"), settings)
	policy.Annotations = map[string]string{policyv1alpha1.DriftAnnotation: policyv1alpha1.DriftReport}
	fleettest.Create(t, fleet.Hub, settings, policy)
	fleettest.ExpectEventually(t, fleet.Member("member1"), settings.DeepCopy(), fleettest.Exists)
	changeAs(t, fleet.Member("member1"), settings, "a-person", `{"data":{"a":"theirs"}}`)
	driftOf(t, fleet, ns, "settings", fieldIs("/data/a", fleetv1alpha1.DriftReported, `"ours"`, `"theirs"`, "a-person"))
}

// TestDriftOfATenant: a tenant with flagship-drift sees the objects that he may get, values with rights in the member, and adopts with
// the rights that this takes on both sides.
func TestDriftOfATenant(t *testing.T) {
	fleet := shared.Start(t)
	ns, other := fleet.Namespace(t), fleet.Namespace(t)
	drifted(t, fleet, ns)
	drifted(t, fleet, other)
	tenant := fleet.Hub.Tenant(t, ns, "configmaps", "resourcebindings")
	user := "tenant-" + ns
	if err := tenant.Create(t.Context(), &fleetv1alpha1.DriftReport{}); !apierrors.IsForbidden(err) {
		t.Errorf("without flagship-drift: %v", err)
	}
	driftsFor(t, fleet, user)
	all := &fleetv1alpha1.DriftReport{}
	if err := tenant.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if s := all.Status; len(s.Objects) != 1 || s.Objects[0].Object.Namespace != ns || s.Objects[0].ValuesHidden == "" || s.OmittedObjects != 0 || len(s.Unanswered) != 0 ||
		fieldIs("/data/a", fleetv1alpha1.DriftReported, "", "", "a-person")(&s.Objects[0]) != nil {
		t.Errorf("a tenant sees %+v", s)
	}
	if _, err := reportOf(t.Context(), tenant, other, "settings"); !apierrors.IsForbidden(err) {
		t.Errorf("about the object of others: %v", err)
	}
	adopt := func(user string) fleettest.Result {
		t.Helper()
		return fleettest.Flagship(t, "drift", "adopt", "configmap/settings", "-n", ns, "--cluster", "member1", "--kubeconfig", as(t, fleet.Hub, user))
	}
	if r := adopt(user); r.Code == 0 || !strings.Contains(r.Stderr, "reading the object in cluster member1") || !strings.Contains(r.Stderr, "clusters/proxy") {
		t.Errorf("adopting without rights in the member: %+v", r)
	}

	read := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}
	reader := "reader-" + ns
	readers := driftsFor(t, fleet, reader, read, rbacv1.PolicyRule{APIGroups: []string{workv1alpha2.GroupVersion.Group}, Resources: []string{"resourcebindings"}, Verbs: []string{"get"}})
	for name, viewer := range map[string]*fleettest.Cluster{user: tenant, reader: readers} {
		inMember1(t, fleet, name, read)
		expectValues(t, viewer, ns)
	}
	if r := adopt(reader); r.Code == 0 || !strings.Contains(r.Stderr, "writing the template") || !strings.Contains(r.Stderr, `cannot update resource "configmaps"`) {
		t.Errorf("adopting without the right to write the template: %+v", r)
	}
	settings := fleettest.ConfigMap(ns, "settings", nil)
	fleettest.ExpectEventually(t, fleet.Hub, settings.DeepCopy(), dataIs(map[string]string{"a": "ours"}))
	if r := adopt(user); r.Code != 0 || !strings.Contains(r.Stdout, `/data/a: "ours" → "theirs"`) {
		t.Errorf("adopting with the rights: %+v", r)
	}
	fleettest.ExpectEventually(t, fleet.Hub, settings.DeepCopy(), dataIs(map[string]string{"a": "theirs"}))
}

// expectValues waits until a user sees the values of the one object that differs: the member receives a moment later who may use the proxy.
func expectValues(t *testing.T, as *fleettest.Cluster, ns string) {
	t.Helper()
	var last error
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		objects, err := reportOf(ctx, as, ns, "settings")
		switch {
		case err != nil:
			last = err
		case len(objects) != 1:
			last = fmt.Errorf("the report is %+v", objects)
		default:
			last = fieldIs("/data/a", fleetv1alpha1.DriftReported, `"ours"`, `"theirs"`, "a-person")(&objects[0])
		}
		return last == nil, nil
	}); err != nil {
		t.Fatalf("%s: %v", as.Name, last)
	}
}

// TestDriftOfASecretIsAdopted: with the rights on both sides, and without a value in any answer or output. A value that an override sets is
// refused as any other.
func TestDriftOfASecretIsAdopted(t *testing.T) {
	fleet := shared.Start(t)
	ns, member := fleet.Namespace(t), fleet.Member("member1")
	token := fleettest.Secret(ns, "token", map[string]string{"a": "ours-a", "b": "ours-b"})
	policy := fleettest.Policy(ns, "token", fleettest.Everywhere(), token)
	policy.Annotations = map[string]string{policyv1alpha1.DriftAnnotation: policyv1alpha1.DriftReport}
	override := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "token"}}
	override.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Secret", Name: "token"}}
	override.Spec.OverrideRules = []policyv1alpha1.RuleWithCluster{{
		TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}},
		Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{{
			Path: "/data/b", Operator: policyv1alpha1.OverriderOpReplace, Value: apiextensionsv1.JSON{Raw: []byte(`"b3ZlcnJpZGRlbg=="`)},
		}}},
	}}
	fleettest.Create(t, fleet.Hub, override, token, policy)
	valuesAre := func(a, b string) func(*corev1.Secret) error {
		return func(s *corev1.Secret) error {
			if !maps.Equal(map[string]string{"a": string(s.Data["a"]), "b": string(s.Data["b"])}, map[string]string{"a": a, "b": b}) {
				return fmt.Errorf("the data are %q", s.Data)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, member, token.DeepCopy(), valuesAre("ours-a", "overridden"))
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "token"}}
	if err := member.Patch(t.Context(), theirs, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"a":"theirs-a","b":"theirs-b"}}`)), client.FieldOwner("a-person")); err != nil {
		t.Fatal(err)
	}
	q := &fleetv1alpha1.DriftReport{}
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, fleettest.Patience, true, func(ctx context.Context) (bool, error) {
		q = &fleetv1alpha1.DriftReport{Spec: fleetv1alpha1.DriftReportSpec{Kind: "Secret", Namespace: ns, Name: "token"}}
		err := fleet.Hub.Create(ctx, q)
		return len(q.Status.Objects) == 1 && len(q.Status.Objects[0].Fields) == 2, err
	}); err != nil {
		t.Fatalf("the report is %+v: %v", q.Status, err)
	}
	var printed []string
	if a, b := q.Status.Objects[0].Fields[0], q.Status.Objects[0].Fields[1]; a.Wanted != "(hidden)" || a.Found != "(hidden)" || a.Overridden || !b.Overridden {
		t.Errorf("the fields are %+v", q.Status.Objects[0].Fields)
	}
	printed = append(printed, fmt.Sprintf("%+v", q.Status))
	run := func(flags ...string) fleettest.Result {
		t.Helper()
		r := fleettest.Flagship(t, slices.Concat([]string{"drift", "adopt", "secret/token", "-n", ns, "--cluster", "member1", "--kubeconfig", fleet.Hub.Kubeconfig}, flags)...)
		printed = append(printed, r.Stdout, r.Stderr)
		return r
	}
	if r := run(); r.Code == 0 || !strings.Contains(r.Stderr, "/data/b is (hidden) in the template") || !strings.Contains(r.Stderr, "an override") {
		t.Errorf("adopting what an override sets: %+v", r)
	}
	if r := run("--field", "/data/a", "--dry-run"); r.Code != 0 || !strings.Contains(r.Stdout, "nothing was written") {
		t.Errorf("the dry run: %+v", r)
	}
	fleettest.ExpectEventually(t, fleet.Hub, token.DeepCopy(), valuesAre("ours-a", "ours-b"))
	if r := run("--field", "/data/a"); r.Code != 0 || !strings.Contains(r.Stdout, "/data/a: (hidden) → (hidden)") {
		t.Errorf("adopting: %+v", r)
	}
	fleettest.ExpectEventually(t, fleet.Hub, token.DeepCopy(), valuesAre("theirs-a", "ours-b"))
	fleettest.ExpectEventually(t, fleet.Member("member2"), token.DeepCopy(), valuesAre("theirs-a", "ours-b"))
	printed = append(printed, command(t, fleet.Hub.Kubeconfig, "drift", "secret/token", "-n", ns))
	for _, text := range printed {
		for _, value := range []string{"ours-", "theirs-", "b3Vycy", "dGhlaXJzL", "b3ZlcnJpZGRlbg"} { // in base64, too
			if strings.Contains(text, value) {
				t.Errorf("a value of a Secret is printed: %s", text)
			}
		}
	}
}

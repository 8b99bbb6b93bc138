package attacks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	members "github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

var gearKind = schema.GroupVersionKind{Group: "attacks.example.io", Version: "v1", Kind: "Gear"}

// churn is a hub with two members, whose objects change between a backup and its restoration.
type churn struct {
	t          *testing.T
	hub        *fleettest.Part
	east, west *fleettest.Part
}

// several are ConfigMaps prefix-0, prefix-1 and so on.
func several(namespace, prefix string, from, to int) (all []client.Object) {
	for i := from; i < to; i++ {
		all = append(all, fleettest.ConfigMap(namespace, fmt.Sprintf("%s-%d", prefix, i), map[string]string{"version": "1"}))
	}
	return all
}

// send creates objects, and a policy of theirs.
func (c *churn) send(namespace, policy string, placement policyv1alpha1.Placement, objects ...client.Object) {
	c.t.Helper()
	fleettest.Create(c.t, c.hub.Cluster, append(slices.Clone(objects), fleettest.Policy(namespace, policy, placement, objects...))...)
}

func (c *churn) namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// move has a policy place its objects elsewhere.
func (c *churn) move(policy, to string) {
	c.t.Helper()
	fleettest.Update(c.t, c.hub.Cluster, fleettest.Policy("shop", policy, fleettest.To(to)), func(p *policyv1alpha1.PropagationPolicy) {
		p.Spec.Placement = fleettest.To(to)
	})
}

// has waits until a member has objects, with a version in those that are ConfigMaps.
func (c *churn) has(member *fleettest.Part, version string, objects ...client.Object) {
	c.t.Helper()
	for _, o := range objects {
		if _, ok := o.(*corev1.ConfigMap); !ok {
			fleettest.ExpectEventually(c.t, member.Cluster, o, fleettest.Exists[client.Object])
			continue
		}
		fleettest.ExpectEventually(c.t, member.Cluster, fleettest.ConfigMap(o.GetNamespace(), o.GetName(), nil), func(cm *corev1.ConfigMap) error {
			if cm.Data["version"] != version {
				return fmt.Errorf("the version is %q, want %q", cm.Data["version"], version)
			}
			return nil
		})
	}
}

// scaled waits until both members have the Deployments with these replicas and so many more as the number of each.
func (c *churn) scaled(base, step int32) {
	c.t.Helper()
	for i := range int32(4) {
		for _, m := range []*fleettest.Part{c.east, c.west} {
			fleettest.ExpectEventually(c.t, m.Cluster, fleettest.Deployment("shop", fmt.Sprintf("web-%d", i), 0), fleettest.Replicas(base+step*i))
		}
	}
}

// gone waits until a member has none of the objects.
func (c *churn) gone(member *fleettest.Part, objects ...client.Object) {
	c.t.Helper()
	for _, o := range objects {
		fleettest.ExpectGone(c.t, member.Cluster, o)
	}
}

// uids are those of all managed objects of a member that are not being deleted.
func (c *churn) uids(member *fleettest.Part) map[string]types.UID {
	c.t.Helper()
	found := map[string]types.UID{}
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Namespace"), appsv1.SchemeGroupVersion.WithKind("Deployment"),
		apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), gearKind,
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := member.List(c.t.Context(), list, client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue})
		if err != nil && !(kind == gearKind && meta.IsNoMatchError(err)) {
			c.t.Fatal(err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.DeletionTimestamp == nil {
				found[kind.Kind+" "+o.Namespace+"/"+o.Name] = o.UID
			}
		}
	}
	return found
}

// kept fails the test if a member lost or replaced one of the objects that it had, but for those named.
func (c *churn) kept(member *fleettest.Part, before map[string]types.UID, but ...string) {
	c.t.Helper()
	now := c.uids(member)
	for o, uid := range before {
		if now[o] != uid && !slices.Contains(but, o) {
			c.t.Errorf("%s: %s has the UID %q, want %q", member.Name, o, now[o], uid)
		}
	}
}

// listed waits until the objects of a class in a member are these, each as resource and name.
func (c *churn) listed(cluster string, class members.Class, want ...string) {
	c.t.Helper()
	slices.Sort(want)
	until(c.t, func() error {
		r := fleettest.Flagship(c.t, "restore", "status", "--cluster", cluster, "-o", "json", "--kubeconfig", c.hub.Kubeconfig)
		var reports []members.Report
		if err := json.Unmarshal([]byte(r.Stdout), &reports); err != nil || len(reports) != 1 || r.Code != 0 {
			return fmt.Errorf("the command printed %s%s: %v", r.Stdout, r.Stderr, err)
		}
		var found []string
		for _, f := range reports[0].Findings {
			if f.Class == class {
				found = append(found, f.Resource+" "+f.Name)
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, want) {
			return fmt.Errorf("%s: as %s are listed %v, want %v", cluster, class, found, want)
		}
		return nil
	})
}

// held waits until the condition DispatchingHeld of both members has a status.
func (c *churn) held(want metav1.ConditionStatus) {
	c.t.Helper()
	for _, name := range []string{"east", "west"} {
		fleettest.ExpectEventually(c.t, c.hub.Cluster, &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, func(cluster *clusterv1alpha1.Cluster) error {
			found := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
			if found == nil || found.Status != want {
				return fmt.Errorf("the condition is %+v, want %s", found, want)
			}
			return nil
		})
	}
}

// words are a resource with each of several names.
func words(resource string, objects ...client.Object) (all []string) {
	for _, o := range objects {
		all = append(all, resource+" "+o.GetName())
	}
	return all
}

func (c *churn) run(args ...string) string {
	c.t.Helper()
	r := fleettest.Flagship(c.t, args...)
	if r.Code != 0 {
		c.t.Fatalf("%v: %s%s", args, r.Stdout, r.Stderr)
	}
	return r.Stdout
}

// before is what the backup has.
func (c *churn) before() {
	c.t.Helper()
	fleettest.Create(c.t, c.hub.Cluster, c.namespace("shop"), c.namespace("going"))
	var web []client.Object
	for i := range 4 {
		web = append(web, fleettest.Deployment("shop", fmt.Sprintf("web-%d", i), 1))
	}
	c.send("shop", "web", fleettest.To("east", "west"), web...)
	c.send("shop", "plain", fleettest.To("east"), several("shop", "plain", 0, 12)...)
	c.send("shop", "moved", fleettest.To("east"), several("shop", "moved", 0, 6)...)
	c.send("shop", "shifts", fleettest.To("east"), several("shop", "shifts", 0, 1)...)
	c.send("going", "left", fleettest.To("east"), several("going", "left", 0, 2)...)
	c.scaled(1, 0)
	for _, objects := range [][]client.Object{several("shop", "plain", 0, 12), several("shop", "moved", 0, 6), several("shop", "shifts", 0, 1), several("going", "left", 0, 2)} {
		c.has(c.east, "1", objects...)
	}
}

// period is for how long objects are changed besides, such as 10m.
var period = os.Getenv("FLAGSHIP_RESTORE_CHANGES")

// goOn changes objects for a period, if there is one, and returns how many changes reached the members. What it creates it deletes.
func (c *churn) goOn() (changes int) {
	c.t.Helper()
	if period == "" {
		return 0
	}
	period, err := time.ParseDuration(period)
	if err != nil {
		c.t.Fatal(err)
	}
	for end := time.Now().Add(period); time.Now().Before(end); changes += 7 {
		version := fmt.Sprintf("later-%d", changes)
		for i := range 4 {
			fleettest.Update(c.t, c.hub.Cluster, fleettest.ConfigMap("shop", fmt.Sprintf("plain-%d", i), nil), func(cm *corev1.ConfigMap) { cm.Data["version"] = version })
		}
		passing := several("shop", version, 0, 1)
		c.send("shop", version, fleettest.To("east", "west"), passing...)
		c.has(c.east, version, several("shop", "plain", 0, 4)...)
		c.has(c.east, "1", passing...)
		c.has(c.west, "1", passing...)
		fleettest.Delete(c.t, c.hub.Cluster, append(passing, fleettest.Policy("shop", version, fleettest.To("east", "west"), passing...))...)
		c.gone(c.east, passing...)
		c.gone(c.west, passing...)
	}
	return changes
}

// after are three dozen changes, and more if the test is to go on.
func (c *churn) after() {
	c.t.Helper()
	c.t.Logf("%d changes were made before the three dozen", c.goOn())
	for i := range int32(4) {
		fleettest.Update(c.t, c.hub.Cluster, fleettest.Deployment("shop", fmt.Sprintf("web-%d", i), 0), func(d *appsv1.Deployment) { d.Spec.Replicas = new(2 + i) })
	}
	for i := range 4 {
		fleettest.Update(c.t, c.hub.Cluster, fleettest.ConfigMap("shop", fmt.Sprintf("plain-%d", i), nil), func(cm *corev1.ConfigMap) { cm.Data["version"] = "2" })
	}
	fleettest.Delete(c.t, c.hub.Cluster, several("shop", "plain", 4, 7)...)
	c.move("moved", "west")
	c.send("shop", "made", fleettest.To("east", "west"), several("shop", "made", 0, 6)...)
	fleettest.Create(c.t, c.hub.Cluster, c.namespace("coming"))
	c.send("coming", "arrived", fleettest.To("west"), several("coming", "arrived", 0, 3)...)
	open := true
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gears." + gearKind.Group}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: gearKind.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gears", Singular: "gear", Kind: gearKind.Kind, ListKind: "GearList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: gearKind.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}}}},
	}}
	gear := &unstructured.Unstructured{}
	gear.SetGroupVersionKind(gearKind)
	gear.SetNamespace("coming")
	gear.SetName("gear")
	ctx := c.t.Context() // the restored control plane does not have them, so that there is nothing to clean up
	selected := &apiextensionsv1.CustomResourceDefinition{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}, ObjectMeta: definition.ObjectMeta}
	if err := errors.Join(c.hub.Create(ctx, definition), c.hub.Create(ctx, fleettest.ClusterPolicy("gears", fleettest.To("east"), selected))); err != nil {
		c.t.Fatal(err)
	}
	c.send("coming", "gear", fleettest.To("east"), gear)
	if err := c.hub.Delete(ctx, c.namespace("going")); err != nil {
		c.t.Fatal(err)
	}

	c.scaled(2, 1)
	c.has(c.east, "2", several("shop", "plain", 0, 4)...)
	c.has(c.west, "1", append(several("shop", "moved", 0, 6), several("coming", "arrived", 0, 3)...)...)
	c.has(c.east, "1", several("shop", "made", 0, 6)...)
	c.has(c.west, "1", several("shop", "made", 0, 6)...)
	c.has(c.east, "", gear)
	c.gone(c.east, append(several("shop", "plain", 4, 7), several("shop", "moved", 0, 6)...)...)
	c.gone(c.east, append(several("going", "left", 0, 2), c.namespace("going"))...)
}

// TestRestoredAfterMuchHasChanged changes a few dozen objects of many kinds between a backup and its restoration. Nothing that a member has is
// deleted or replaced, all that was created since is an orphan, and only what the restored state orders deleted is deleted in the end.
func TestRestoredAfterMuchHasChanged(t *testing.T) {
	fleettest.Nightly(t, "TestRestoredControlPlaneWaits guards the same with fewer kinds")
	t.Parallel()
	var flags []string
	if period != "" {
		flags = []string{"--brake-share=1"} // most of what there is is deleted within the window of the brake
	}
	c := &churn{t: t, hub: fleettest.StartHub(t, flags...), east: fleettest.StartMember(t, "east", "--bare"), west: fleettest.StartMember(t, "west", "--bare")}
	c.hub.Join(t, "east", c.east.Kubeconfig)
	c.hub.Join(t, "west", c.west.Kubeconfig)
	c.before()
	backups, restored, passphrase := t.TempDir(), filepath.Join(t.TempDir(), "restored"), filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(passphrase, []byte("correct horse battery\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	saved, _, _ := strings.Cut(c.run("backup", "create", "--data-dir", c.hub.Dir, "--to", backups, "--passphrase-file", passphrase), ":")
	c.after()
	c.hub.Kill()
	east, west := c.uids(c.east), c.uids(c.west)
	c.run("restore", "from", saved, "--data-dir", restored, "--passphrase-file", passphrase)
	c.hub.Start(t, "--data-dir", restored)
	c.held(metav1.ConditionTrue)

	made, moved := several("shop", "made", 0, 6), several("shop", "moved", 0, 6)
	later := []string{"customresourcedefinitions.apiextensions.k8s.io gears." + gearKind.Group, "gears." + gearKind.Group + " gear", "namespaces coming"}
	c.listed("east", members.Orphan, append(words("configmaps", made...), later...)...)
	c.listed("west", members.Orphan, slices.Concat(words("configmaps", made...), words("configmaps", moved...), words("configmaps", several("coming", "arrived", 0, 3)...), later[2:])...)
	c.listed("east", members.Different, words("configmaps", several("shop", "plain", 0, 4)...)...)
	c.listed("east", members.Unwanted)
	c.listed("west", members.Unwanted)
	c.kept(c.east, east)
	c.kept(c.west, west)

	c.adopt(made)
	fleettest.Delete(t, c.hub.Cluster, several("shop", "plain", 11, 12)...)
	c.move("shifts", "west")
	c.run("restore", "resume", "--all", "--only", "create,change", "--kubeconfig", c.hub.Kubeconfig)
	c.scaled(1, 0)
	c.has(c.east, "1", slices.Concat(several("shop", "plain", 0, 11), moved, several("going", "left", 0, 2))...)
	c.has(c.west, "1", several("shop", "shifts", 0, 1)...)
	c.listed("east", members.Unwanted, "configmaps plain-11", "configmaps shifts-0")
	c.listed("west", members.Unwanted)
	c.kept(c.east, east)
	c.kept(c.west, west)

	c.run("restore", "resume", "--all", "--kubeconfig", c.hub.Kubeconfig)
	c.held(metav1.ConditionFalse)
	c.gone(c.east, several("shop", "plain", 11, 12)...)
	c.gone(c.east, several("shop", "shifts", 0, 1)...)
	c.listed("east", members.Unwanted)
	c.kept(c.east, east, "ConfigMap shop/plain-11", "ConfigMap shop/shifts-0")
	c.kept(c.west, west)
	// What was adopted follows its template, and is the same object.
	for _, o := range made {
		fleettest.Update(t, c.hub.Cluster, fleettest.ConfigMap("shop", o.GetName(), nil), func(cm *corev1.ConfigMap) { cm.Data["version"] = "3" })
	}
	c.has(c.east, "3", made...)
	c.kept(c.east, east, "ConfigMap shop/plain-11", "ConfigMap shop/shifts-0")
	c.listed("east", members.Orphan, later...)
}

// adopt makes templates of the orphans in the namespace shop of east. The operator reads them in the member, whose owner allows it.
func (c *churn) adopt(orphans []client.Object) {
	c.t.Helper()
	fleettest.Create(c.t, c.east.Cluster, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operators"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "flagship:operators"}},
	})
	promote := []string{"promote", "--orphans", "--unrecorded", "--with-policy", "--cluster", "east", "-n", "shop", "--kubeconfig", c.hub.Kubeconfig}
	until(c.t, func() error { // the member takes a moment to give the rights
		r := fleettest.Flagship(c.t, append(promote, "--dry-run")...)
		if r.Code == 0 {
			_, digest, _ := strings.Cut(strings.TrimSpace(r.Stderr), "--expect ")
			r = fleettest.Flagship(c.t, append(promote, "--expect", digest)...)
		}
		if r.Code != 0 {
			return fmt.Errorf("promote: %s%s", r.Stdout, r.Stderr)
		}
		return nil
	})
	for _, o := range orphans {
		fleettest.ExpectEventually(c.t, c.hub.Cluster, o, fleettest.Exists[client.Object])
	}
}

// Package migration_test has a control plane taken over by another one, with the members' objects as Karmada leaves them.
package migration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const shop = "shop"

var boatKind = schema.GroupVersionKind{Group: "harbour.example.com", Version: "v1", Kind: "Boat"}

// TestImport has a control plane with objects of many kinds in two members, makes the members' objects look like those of Karmada, and has
// another control plane take them over. No object in a member is changed before the cut-over; by it only the marks in the metadata are, and
// no generation is raised. Then a third control plane gets them. It takes 100 s beside other tests, for its control planes and members.
func TestImport(t *testing.T) {
	t.Parallel()
	source, target := fleettest.StartHub(t), fleettest.StartHub(t)
	members := map[string]*fleettest.Part{}
	for _, name := range []string{"east", "west"} {
		members[name] = fleettest.StartMember(t, name, "--nodes", "1")
		source.Join(t, name, members[name].Kubeconfig)
	}
	propagate(t, source, members)
	rolledOut(t, members)

	importing := []string{"import", "--kubeconfig", target.Kubeconfig, "--from-kubeconfig", source.Kubeconfig}
	fleettest.ExpectRefusal(t, "may still write to clusters", append(importing, "--cut-over")...)
	for name := range members {
		hold(t, source, name)
	}
	for _, member := range members {
		asKarmada(t, member, "karmada-controller-manager")
	}
	before := contentsOf(t, members)

	requests := map[string]fleettest.Requests{}
	for name, member := range members {
		requests[name] = fleettest.CountRequests(t, member.Cluster)
	}
	planned := run(t, append(importing, "--dry-run", "-o", "json")...)
	if planned.Kinds["Deployment"] != 2 || planned.Kinds["Boat"] != 1 || planned.Kinds["Cluster"] != 2 || planned.Copied != nil {
		t.Errorf("the dry run reports %+v", planned)
	}
	fleettest.ExpectAbsent(t, target.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}})

	copied := run(t, append(importing, "-o", "json")...)
	if copied.Copied.Created == 0 || len(copied.Copied.Refused) > 0 || copied.Comparison.Same < 8 || len(copied.Comparison.Differences) > 0 {
		t.Fatalf("the import reports %+v", copied)
	}
	again := run(t, append(importing, "-o", "json")...)
	if again.Copied.Created != 0 || again.Copied.Updated != 0 {
		t.Errorf("a second import without changes reports %+v", again.Copied)
	}
	for name, member := range members {
		now := objectsOf(t, member)
		if !maps.Equal(now, before[name]) {
			t.Errorf("objects in %s have changed before the cut-over, from %v to %v", name, before[name], now)
		}
		written := fleettest.CountRequests(t, member.Cluster).Since(requests[name]).Writes().Of("configmaps", "secrets", "services", "namespaces", "deployments",
			"customresourcedefinitions", "boats", "serviceaccounts", "clusterroles", "clusterrolebindings")
		if written.Total() > 0 {
			t.Errorf("writes to %s before the cut-over:\n%s", name, written)
		}
	}

	// A change that arrives at the old control plane in between is a difference, until it is imported.
	fleettest.Update(t, source.Cluster, fleettest.ConfigMap(shop, "settings", nil), func(c *corev1.ConfigMap) { c.Data["colour"] = "green" })
	fleettest.ExpectEventually(t, source.Cluster, workOf("east", "ConfigMap", "settings"), func(w *workv1alpha1.Work) error {
		if !strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), "green") {
			return fmt.Errorf("the Work has %s", w.Spec.Workload.Manifests[0].Raw)
		}
		return nil
	})
	fleettest.ExpectRefusal(t, "would change", append(importing, "--cut-over")...)
	if updated := run(t, append(importing, "-o", "json")...); updated.Copied.Updated != 1 || len(updated.Comparison.Differences) > 0 {
		t.Errorf("the import of a change reports %+v", updated)
	}

	if r := fleettest.Flagship(t, append(importing, "--cut-over")...); r.Code != 0 || strings.Count(r.Stdout, "is taken over") != 2 {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	fleettest.ExpectEventually(t, members["east"].Cluster, fleettest.ConfigMap(shop, "settings", nil), func(c *corev1.ConfigMap) error {
		if c.Data["colour"] != "green" || c.Annotations[workv1alpha1.ControlPlaneAnnotation] == "" {
			return fmt.Errorf("it has %v, %v", c.Annotations, c.Data)
		}
		return nil
	})
	for name, member := range members {
		applied(t, target, name)
		taken(t, member)
		delete(before[name], "ConfigMap shop/settings")
	}
	unchanged(t, members, before)
	inCharge(t, target, members, "nginx:2")
	putsBack(t, members["west"])
	fleettest.ExpectRefusal(t, "writes to cluster", importing...)
	exports(t, target, members)
}

// inCharge checks that a change at a control plane reaches the members.
func inCharge(t *testing.T, hub *fleettest.Part, members map[string]*fleettest.Part, image string) {
	t.Helper()
	fleettest.Update(t, hub.Cluster, fleettest.Deployment(shop, "web", 3), func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
	for _, member := range members {
		fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment(shop, "web", 3), func(d *appsv1.Deployment) error {
			if is := d.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(is, image) {
				return fmt.Errorf("the image is %s", is)
			}
			return nil
		})
	}
}

// putsBack checks that a change in the member of a Deployment that was taken over as it was is drift, and that it gets the annotations of
// the control plane then.
func putsBack(t *testing.T, member *fleettest.Part) {
	t.Helper()
	pinned := fleettest.Deployment(shop, "pinned", 2)
	fleettest.Update(t, member.Cluster, pinned, func(d *appsv1.Deployment) {
		if d.Annotations[workv1alpha1.LastAppliedAnnotation] != "" {
			t.Errorf("%s was not taken over as it was: it has %v", d.Name, d.Annotations)
		}
		d.Spec.Replicas = new(int32(4))
	})
	fleettest.ExpectEventually(t, member.Cluster, pinned, func(d *appsv1.Deployment) error {
		if *d.Spec.Replicas != 2 || d.Annotations[workv1alpha1.LastAppliedAnnotation] == "" || d.Annotations[workv1alpha1.ControlPlaneAnnotation] == "" {
			return fmt.Errorf("it has %d replicas and %v", *d.Spec.Replicas, d.Annotations)
		}
		return nil
	})
}

// exports gives the members to a third control plane, in the same way as to one of Karmada.
func exports(t *testing.T, from *fleettest.Part, members map[string]*fleettest.Part) {
	t.Helper()
	to := fleettest.StartHub(t)
	exporting := []string{"export", "--kubeconfig", from.Kubeconfig, "--to-kubeconfig", to.Kubeconfig}
	if planned := run(t, append(exporting, "--dry-run", "-o", "json")...); planned.Kinds["Deployment"] != 2 || planned.Kinds["Cluster"] != 2 || planned.Copied != nil {
		t.Errorf("the dry run reports %+v", planned)
	}
	rolledOut(t, members)
	before := contentsOf(t, members)
	exported := run(t, append(exporting, "-o", "json")...)
	if exported.Copied.Created == 0 || len(exported.Copied.Refused) > 0 || exported.Comparison.Same < 8 || len(exported.Comparison.Differences) > 0 {
		t.Fatalf("the export reports %+v", exported)
	}
	if again := run(t, append(exporting, "-o", "json")...); again.Copied.Created != 0 || again.Copied.Updated != 0 {
		t.Errorf("a second export without changes reports %+v", again.Copied)
	}
	for name, member := range members {
		fleettest.ExpectAbsent(t, to.Cluster, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.ClusterNamespace, Name: name}})
		if now := objectsOf(t, member); !maps.Equal(now, before[name]) {
			t.Errorf("objects in %s have changed before the cut-over, from %v to %v", name, before[name], now)
		}
	}
	// What is changed there is a difference, and the export puts it right.
	fleettest.Update(t, to.Cluster, fleettest.ConfigMap(shop, "settings", nil), func(c *corev1.ConfigMap) { c.Data["colour"] = "red" })
	fleettest.ExpectEventually(t, to.Cluster, workOf("east", "ConfigMap", "settings"), func(w *workv1alpha1.Work) error {
		if !strings.Contains(string(w.Spec.Workload.Manifests[0].Raw), "red") {
			return fmt.Errorf("the Work has %s", w.Spec.Workload.Manifests[0].Raw)
		}
		return nil
	})
	fleettest.ExpectRefusal(t, "would change", append(exporting, "--cut-over")...)
	if updated := run(t, append(exporting, "-o", "json")...); updated.Copied.Updated != 1 || len(updated.Comparison.Differences) > 0 {
		t.Errorf("the export of a change reports %+v", updated)
	}

	// The other one is Flagship, too, and does not take what has the marks of another control plane. Karmada does not read them.
	for name, member := range members {
		hold(t, from, name)
		asKarmada(t, member, "karmada-controller-manager")
	}
	before = contentsOf(t, members)
	if r := fleettest.Flagship(t, append(exporting, "--cut-over")...); r.Code != 0 || strings.Count(r.Stdout, "is given away") != 2 {
		t.Fatalf("the cut-over: %d %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for name, member := range members {
		applied(t, to, name)
		taken(t, member)
	}
	unchanged(t, members, before)
	inCharge(t, to, members, "nginx:3")
	fleettest.ExpectRefusal(t, "writes to cluster", exporting...)
}

// propagate has objects of many kinds in the members of a control plane.
func propagate(t *testing.T, hub *fleettest.Part, members map[string]*fleettest.Part) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "boats.harbour.example.com",
			Annotations: map[string]string{workv1alpha1.AllowDeletionAnnotation: "true"}, // the test deletes it
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: boatKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "boats", Singular: "boat", Kind: "Boat", ListKind: "BoatList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: boatKind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: new(true),
				}},
			}},
		},
	}
	fleettest.Create(t, hub.Cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, definition)
	established(t, hub, definition)
	boat := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"length": int64(7)}}}
	boat.SetGroupVersionKind(boatKind)
	boat.SetNamespace(shop)
	boat.SetName("gull")
	web, pinned := fleettest.Deployment(shop, "web", 3), fleettest.Deployment(shop, "pinned", 2)
	settings, secret := fleettest.ConfigMap(shop, "settings", map[string]string{"colour": "blue"}), fleettest.Secret(shop, "key", map[string]string{"key": "value"})
	service := fleettest.Service(shop, "web")
	override := &policyv1alpha1.OverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "west"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{
				TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"west"}},
				Overriders: policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{{
					Operator: policyv1alpha1.OverriderOpAdd, Value: map[string]string{"side": "west"},
				}}},
			}},
		},
	}
	definitions := fleettest.ClusterPolicy("boats", fleettest.Everywhere())
	definitions.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: definition.Name}}
	fleettest.Create(t, hub.Cluster, override, definitions, boat, web, pinned, settings, secret, service,
		fleettest.Policy(shop, "divided", fleettest.Divided(fleettest.Weight{Cluster: "east", Weight: 2}, fleettest.Weight{Cluster: "west", Weight: 1}), web),
		fleettest.Policy(shop, "pinned", fleettest.To("west"), pinned),
		fleettest.Policy(shop, "everywhere", fleettest.Everywhere(), settings, secret, service, boat))
	for name, member := range members {
		for _, o := range []client.Object{fleettest.Deployment(shop, "web", 3), fleettest.ConfigMap(shop, "settings", nil), fleettest.Secret(shop, "key", nil), fleettest.Service(shop, "web")} {
			fleettest.ExpectEventually(t, member.Cluster, o, fleettest.Exists)
		}
		gull := boat.DeepCopy()
		fleettest.ExpectEventually(t, member.Cluster, gull, fleettest.Exists)
		if name == "west" {
			fleettest.ExpectEventually(t, member.Cluster, fleettest.Deployment(shop, "pinned", 2), fleettest.Exists)
		}
	}
	fleettest.ExpectListed(t, hub.Cluster, &workv1alpha2.ResourceBindingList{}, shop, func(all *workv1alpha2.ResourceBindingList) error {
		for i := range all.Items {
			if err := fleettest.ConditionTrue(all.Items[i].Status.Conditions, workv1alpha2.FullyApplied); err != nil {
				return fmt.Errorf("%s: %w", all.Items[i].Name, err)
			}
		}
		return nil
	})
}

// established waits until a kind is served.
func established(t *testing.T, in *fleettest.Part, definition client.Object) {
	t.Helper()
	like := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: definition.GetName()}}
	fleettest.ExpectEventually(t, in.Cluster, like, func(d *apiextensionsv1.CustomResourceDefinition) error {
		if !slices.ContainsFunc(d.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		}) {
			return fmt.Errorf("it has %+v", d.Status.Conditions)
		}
		return nil
	})
}

// hold has a control plane write nothing to a cluster.
func hold(t *testing.T, hub *fleettest.Part, name string) {
	t.Helper()
	cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fleettest.Update(t, hub.Cluster, cluster, func(c *clusterv1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1alpha1.HoldDispatchingAnnotation, "it moves")
	})
	fleettest.ExpectEventually(t, hub.Cluster, cluster, func(c *clusterv1alpha1.Cluster) error {
		held := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionDispatchingHeld)
		if held == nil || held.Status != metav1.ConditionTrue || held.Reason != clusterv1alpha1.HeldByAnnotationReason {
			return fmt.Errorf("the condition is %+v", held)
		}
		return nil
	})
}

// object is what of an object in a member may not change: by the cut-over the uid, the generation and the content, and before not even
// the version. Of a pod it is the uid, and the generation.
type object struct {
	uid, content, resourceVersion string
	generation                    int64
}

// kinds are those of the objects that are propagated.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "Namespace"},
	{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, boatKind,
}

// served are those of kinds that a member has.
func served(member *fleettest.Part) []schema.GroupVersionKind {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind schema.GroupVersionKind) bool {
		_, err := member.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return meta.IsNoMatchError(err)
	})
}

// managed lists the objects of a member that a control plane manages.
func managed(t *testing.T, member *fleettest.Part) []unstructured.Unstructured {
	t.Helper()
	var all []unstructured.Unstructured
	for _, kind := range served(member) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := member.List(t.Context(), list, client.MatchingLabels{workv1alpha1.ManagedLabel: workv1alpha1.ManagedLabelValue}); err != nil {
			t.Fatal(err)
		}
		all = append(all, list.Items...)
	}
	return all
}

// objectsOf are the managed objects of a member, and the pods of its Deployments.
func objectsOf(t *testing.T, member *fleettest.Part) map[string]object {
	t.Helper()
	all := map[string]object{}
	pods := &corev1.PodList{}
	if err := member.List(t.Context(), pods, client.InNamespace(shop)); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		all["Pod "+p.Name] = object{uid: string(p.UID), generation: p.Generation}
	}
	if len(all) == 0 {
		t.Fatal("there are no pods")
	}
	for _, o := range managed(t, member) {
		content := maps.Clone(o.Object)
		delete(content, "metadata")
		delete(content, "status")
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		all[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = object{string(o.GetUID()), string(text), o.GetResourceVersion(), o.GetGeneration()}
	}
	return all
}

// rolledOut waits until the Deployments of members have all pods, and no other ones, so that nothing but a control plane changes them.
func rolledOut(t *testing.T, members map[string]*fleettest.Part) {
	t.Helper()
	for _, member := range members {
		var wanted int32
		fleettest.ExpectListed(t, member.Cluster, &appsv1.DeploymentList{}, shop, func(all *appsv1.DeploymentList) error {
			wanted = 0
			for _, d := range all.Items {
				if s := d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != *d.Spec.Replicas || s.Replicas != s.UpdatedReplicas || s.AvailableReplicas != s.Replicas {
					return fmt.Errorf("the status of %s of generation %d with %d replicas is %+v", d.Name, d.Generation, *d.Spec.Replicas, s)
				}
				wanted += *d.Spec.Replicas
			}
			return nil
		})
		fleettest.ExpectListed(t, member.Cluster, &corev1.PodList{}, shop, func(all *corev1.PodList) error {
			if len(all.Items) != int(wanted) {
				return fmt.Errorf("there are %d pods, want %d", len(all.Items), wanted)
			}
			return nil
		})
	}
}

// applied waits until a control plane reports all its Works of a cluster applied.
func applied(t *testing.T, hub *fleettest.Part, cluster string) {
	t.Helper()
	fleettest.ExpectListed(t, hub.Cluster, &workv1alpha1.WorkList{}, workv1alpha1.ExecutionNamespace(cluster), func(all *workv1alpha1.WorkList) error {
		for i := range all.Items {
			w := &all.Items[i]
			c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
			if !workv1alpha1.IsRecord(w) && (c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != w.Generation) {
				return fmt.Errorf("the condition of %s of generation %d is %+v", w.Name, w.Generation, c)
			}
		}
		return nil
	})
}

// asKarmada gives the managed objects of a member the form in which Karmada leaves them: without marks of Flagship, and with fields that
// belong to its controller, or to its agent, by plain updates.
func asKarmada(t *testing.T, member *fleettest.Part, manager string) {
	t.Helper()
	for _, o := range managed(t, member) {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			if err := member.Get(t.Context(), client.ObjectKeyFromObject(&o), &o); err != nil {
				return err
			}
			annotations := o.GetAnnotations()
			maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "flagship.io/") })
			o.SetAnnotations(annotations)
			entries := o.GetManagedFields()
			for i := range entries {
				if strings.HasPrefix(entries[i].Manager, "flagship") {
					entries[i].Manager, entries[i].Operation = manager, metav1.ManagedFieldsOperationUpdate
				}
			}
			o.SetManagedFields(entries)
			return member.Update(t.Context(), &o, client.FieldOwner(manager))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rolledOut(t, map[string]*fleettest.Part{"": member})
}

// taken waits until all managed objects of a member belong to one control plane: its field manager owns their fields, and each but a
// Deployment, whose annotations stay as they are, has its id.
func taken(t *testing.T, member *fleettest.Part) {
	t.Helper()
	for _, kind := range served(member) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		fleettest.ExpectListed(t, member.Cluster, list, "", func(all *unstructured.UnstructuredList) error {
			for _, o := range all.Items {
				owned := slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(e.Manager, "flagship-") })
				marked := o.GetAnnotations()[workv1alpha1.ControlPlaneAnnotation] != "" || o.GetKind() == "Deployment"
				if o.GetLabels()[workv1alpha1.ManagedLabel] != "" && !(owned && marked) {
					return fmt.Errorf("%s %s is not taken over", o.GetKind(), o.GetName())
				}
			}
			return nil
		})
	}
}

func workOf(cluster, kind, name string) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(kind, shop, name),
	}}
}

// report is what an import prints as JSON.
type report struct {
	Copied *struct {
		Created, Updated, Unchanged int
		Refused                     []string
	}
	Kinds map[string]int
	Notes []struct {
		Kind, Reason string
		Count        int
		Names        []string
	}
	Comparison struct {
		Same        int
		Differences []json.RawMessage
	}
}

func run(t *testing.T, args ...string) report {
	t.Helper()
	r := fleettest.Flagship(t, args...)
	if r.Code != 0 {
		t.Fatalf("%v: %d %s%s", args, r.Code, r.Stdout, r.Stderr)
	}
	var parsed report
	if err := json.Unmarshal([]byte(r.Stdout), &parsed); err != nil {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	return parsed
}

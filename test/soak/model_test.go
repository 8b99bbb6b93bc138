package soak_test

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const (
	// users is how many of them there are. Objects of different users change at the same time, those of one user one after the other.
	users = 4
	// image is that of Deployments, without the tag, which is their value.
	image = "example.com/image"
	// group is that of definitions.
	group = "soak.example.com"
)

// weights divide replicas. A multiple of evenly has a share without a fraction in each cluster, also while one of them has left.
var weights = map[string]int32{near: 1, far: 2, pulled: 3}

const evenly = 60

// definitions are the kinds of custom resources, each of which has a definition at times; that at an index belongs to the user of that index.
var definitions = []string{"Widget", "Gadget"}

// model is what users have done, and so what there should be.
type model struct {
	// objects has those of users by name; no name is used twice.
	objects map[string]*object
	// namespaces are those that are deleted at some time, with the user.
	namespaces map[string]int
	// defined are the kinds of definitions that exist.
	defined map[string]bool
	// tiers has a label of each Cluster.
	tiers map[string]string
	// absent is the cluster that has left, if one has.
	absent string
	next   int
	rounds int
}

// object is one of users, with its policy.
type object struct {
	kind, namespace, name string
	user                  int
	// wide: its policy is a ClusterPropagationPolicy.
	wide bool
	// named are the clusters that the placement names; without any, it selects those of the tier gold.
	named map[string]bool
	value string
	// replicas are those of a Deployment; divided: by weights, and else each cluster has all of them.
	replicas int32
	divided  bool
	// overridden has the value in the cluster that an OverridePolicy has, if there is one.
	overridden map[string]string
	suspended  bool
	// changed is the last round in which it was changed.
	changed int
	// uids are those of its copies at the last check, by cluster; a copy that a user deleted or moved away since has none.
	uids map[string]types.UID
	// found are the contents that its copies had at the last check, by cluster, and since all that it should have had since then.
	found map[string]string
	since map[string][]string
}

func newModel() *model {
	return &model{objects: map[string]*object{}, namespaces: map[string]int{}, defined: map[string]bool{},
		tiers: map[string]string{near: gold, far: gold, pulled: gold}}
}

// targets are the clusters in which an object should be.
func (m *model) targets(o *object) []string {
	return slices.DeleteFunc(slices.Clone(names), func(cluster string) bool {
		return cluster == m.absent || len(o.named) > 0 && !o.named[cluster] || len(o.named) == 0 && m.tiers[cluster] != gold
	})
}

// content is what an object should have in a cluster.
func (m *model) content(o *object, cluster string) string {
	value, overridden := o.overridden[cluster]
	if !overridden {
		value = o.value
	}
	if o.kind != "Deployment" {
		return value
	}
	replicas := o.replicas
	if o.divided {
		var all int32
		for _, target := range m.targets(o) {
			all += weights[target]
		}
		replicas = o.replicas * weights[cluster] / all
	}
	return fmt.Sprintf("%s with %d replicas", value, replicas)
}

// accepts returns nil if a copy in a cluster has what it should have. A suspended one has what it had before: at the last check, or since then
// if it was suspended after that.
func (m *model) accepts(o *object, cluster, content string) error {
	if !o.suspended {
		if wanted := m.content(o, cluster); content != wanted {
			return fmt.Errorf("%s in %s has %q, want %q", o.name, cluster, content, wanted)
		}
		return nil
	}
	if content != o.found[cluster] && !slices.Contains(o.since[cluster], content) {
		return fmt.Errorf("%s, which is suspended, has %q in %s, want %q or one of %q", o.name, content, cluster, o.found[cluster], o.since[cluster])
	}
	return nil
}

// changes notes what an object should have now. It is called after each change.
func (m *model) changes(o *object) {
	o.changed = m.rounds
	if o.suspended {
		return
	}
	for _, cluster := range m.targets(o) {
		o.since[cluster] = append(o.since[cluster], m.content(o, cluster))
	}
}

// settled notes what the copies in a cluster are.
func (m *model) settled(cluster string, copies map[string]client.Object) {
	for name, o := range m.objects {
		copied := copies[name]
		if copied == nil {
			delete(o.uids, cluster)
			delete(o.found, cluster)
		} else {
			o.uids[cluster], o.found[cluster] = copied.GetUID(), contentOf(copied)
		}
		o.since[cluster] = nil
	}
}

// leaves notes that an object leaves a cluster: if it is there again at the next check, it is another copy.
func (o *object) leaves(clusters ...string) {
	for _, cluster := range clusters {
		delete(o.uids, cluster)
	}
}

// present are the names of objects that a condition selects.
func (m *model) present(is func(*object) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.objects)), func(name string) bool { return !is(m.objects[name]) })
}

// template is an object as users write it.
func (o *object) template() client.Object {
	switch o.kind {
	case "Secret":
		return fleettest.Secret(o.namespace, o.name, map[string]string{"value": o.value})
	case "Deployment":
		d := fleettest.Deployment(o.namespace, o.name, o.replicas)
		d.Spec.Template.Spec.Containers[0].Image = image + ":" + o.value
		return d
	case "ClusterRole":
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: o.name},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{group}, Resources: []string{"widgets"}, ResourceNames: []string{o.value}}},
		}
	case "ConfigMap":
		return fleettest.ConfigMap(o.namespace, o.name, map[string]string{"value": o.value})
	}
	u := custom(o.kind)
	u.SetNamespace(o.namespace)
	u.SetName(o.name)
	u.Object["spec"] = map[string]any{"value": o.value}
	return u
}

// contentOf is what the template or a copy has.
func contentOf(obj client.Object) string {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return o.Data["value"]
	case *corev1.Secret:
		return string(o.Data["value"])
	case *appsv1.Deployment:
		return fmt.Sprintf("%s with %d replicas", o.Spec.Template.Spec.Containers[0].Image[len(image)+1:], *o.Spec.Replicas)
	case *rbacv1.ClusterRole:
		return o.Rules[0].ResourceNames[0]
	case *unstructured.Unstructured:
		value, _, _ := unstructured.NestedString(o.Object, "spec", "value")
		return value
	}
	return ""
}

func custom(kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	return u
}

// policy is that of an object.
func (o *object) policy() policyv1alpha1.Propagation {
	placement := fleettest.To(slices.Sorted(maps.Keys(o.named))...)
	if len(o.named) == 0 {
		placement.ClusterAffinity.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{tier: gold}}
	}
	if o.divided {
		var shares []fleettest.Weight
		for _, cluster := range slices.Sorted(maps.Keys(o.named)) {
			shares = append(shares, fleettest.Weight{Cluster: cluster, Weight: int64(weights[cluster])})
		}
		placement = fleettest.Divided(shares...)
	}
	var policy policyv1alpha1.Propagation = fleettest.Policy(o.namespace, o.name, placement, o.template())
	if o.wide {
		policy = fleettest.ClusterPolicy(o.name, placement, o.template())
	}
	policy.PropagationSpec().PropagateDeps = slices.Contains(definitions, o.kind)
	if o.suspended {
		policy.PropagationSpec().Suspension = &policyv1alpha1.Suspension{Dispatching: new(true)}
	}
	// Without controllers in the members no copy is ever healthy, for which others would wait.
	policy.SetAnnotations(map[string]string{policyv1alpha1.PurgeModeAnnotation: "Directly"})
	return policy
}

// override is the OverridePolicy of an object, nil without one.
func (o *object) override() *policyv1alpha1.OverridePolicy {
	policy := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}}
	version, kind := "v1", o.kind
	if kind == "Deployment" {
		version = "apps/v1"
	}
	policy.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: version, Kind: kind, Namespace: o.namespace, Name: o.name}}
	for cluster, value := range o.overridden {
		rule := policyv1alpha1.RuleWithCluster{TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}}
		if kind == "Deployment" {
			rule.Overriders.ImageOverrider = []policyv1alpha1.ImageOverrider{{Component: policyv1alpha1.Tag, Operator: policyv1alpha1.OverriderOpReplace, Value: value}}
		} else {
			rule.Overriders.Plaintext = []policyv1alpha1.PlaintextOverrider{{Path: "/data/value", Operator: policyv1alpha1.OverriderOpReplace, Value: jsonOf(value)}}
		}
		policy.Spec.OverrideRules = append(policy.Spec.OverrideRules, rule)
	}
	return policy
}

// plural is the resource of a definition's kind, and definitionName the name of the definition.
func plural(kind string) string {
	return map[string]string{"Widget": "widgets", "Gadget": "gadgets"}[kind]
}

func definitionName(kind string) string { return plural(kind) + "." + group }

func definition(kind string) *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"value": text}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: definitionName(kind)},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
	}
}

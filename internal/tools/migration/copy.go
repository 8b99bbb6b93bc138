package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// The managers of the fields that a migration writes. An object that has the one of a Copier in the target was copied before, and may be
// brought up to date.
const (
	ImportManager = "flagship-import"
	ExportManager = "flagship-export"
)

const (
	// poll is how often a state that a migration waits for is read.
	poll = 500 * time.Millisecond
	// readyPatience is how long copied Clusters and definitions may take until they are ready.
	readyPatience = 2 * time.Minute
)

// Copier copies plans to a control plane.
type Copier struct {
	Target *ControlPlane
	// Manager is one of ImportManager and ExportManager.
	Manager string
	// Held is why nothing is written to copied Clusters, for people; it is the value of their annotation. If it is empty, Clusters are copied
	// without their credentials: every control plane of this API writes nothing to those.
	Held string
	// Overwrite has objects of the same name replaced: those that no migration wrote, but for Clusters, and what was changed since the target
	// writes to a cluster.
	Overwrite bool
	// Pruned removes from an object what an API server or a controller set.
	Pruned pruner
	// Progress receives a line when a stage begins.
	Progress func(line string)
}

// Outcome is what became of the objects of a plan.
type Outcome struct {
	Created   int      `json:"created"`
	Updated   int      `json:"updated"`
	Unchanged int      `json:"unchanged"`
	Refused   []string `json:"refused,omitempty"`
}

var stageNames = map[stage]string{
	namespaces: "namespaces", definitions: "definitions of kinds", clusters: "clusters, to which nothing is written yet",
	rules: "override policies and interpreters", bindings: "bindings", templates: "templates", policies: "policies", works: "Works",
}

// Copy writes the objects of a plan in order. An object that cannot be copied is in the outcome, and the others are copied; the error is
// about what ends a migration.
func (c *Copier) Copy(ctx context.Context, p *Plan) (*Outcome, error) {
	outcome := &Outcome{}
	taken, err := c.taken(ctx, p)
	if err != nil {
		return nil, err
	}
	if len(taken) > 0 && !c.Overwrite {
		return nil, fmt.Errorf("%s writes to cluster %s already, and may have other content by now; --overwrite replaces it", c.Target.Address, strings.Join(taken, ", "))
	}
	for i := 0; i < len(p.Items); {
		at, from := p.Items[i].stage, i
		for i < len(p.Items) && p.Items[i].stage == at {
			i++
		}
		c.Progress(fmt.Sprintf("%5d %s", i-from, stageNames[at]))
		for _, item := range p.Items[from:i] {
			if item.stage == clusters && slices.Contains(taken, item.object.GetName()) {
				continue
			}
			err := c.copy(ctx, p, item, outcome)
			if ctx.Err() != nil {
				return outcome, context.Cause(ctx)
			}
			if err != nil {
				outcome.Refused = append(outcome.Refused, fmt.Sprintf("%s: %v", item, err))
			}
		}
		if err := c.await(ctx, p, p.Items[from:i]); err != nil {
			return outcome, err
		}
	}
	return outcome, nil
}

// taken names the Clusters of a plan that were copied earlier, and to which the target writes since a cut-over.
func (c *Copier) taken(ctx context.Context, p *Plan) ([]string, error) {
	var names []string
	for _, item := range p.Items {
		if item.stage != clusters {
			continue
		}
		present, err := c.Target.objects.Resource(item.resource.GroupVersionResource).Get(ctx, item.object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading cluster %s of %s: %w", item.object.GetName(), c.Target.Address, err)
		}
		_, waits := present.GetAnnotations()[clusterv1alpha1.HoldDispatchingAnnotation]
		if c.Held == "" {
			waits = text(present, "spec", "secretRef", "name") == "" && !c.given(item.object)
		}
		if c.isCopy(present) && !waits {
			names = append(names, present.GetName())
		}
	}
	return names, nil
}

// given returns whether a Cluster was given to the target by an export. In Pull mode it has no credentials that show it.
func (c *Copier) given(cluster *unstructured.Unstructured) bool {
	return cluster.GetAnnotations()[clusterv1alpha1.HoldDispatchingAnnotation] == GivenTo(c.Target.Address)
}

// GivenTo is why an exported Cluster is held, for people: the value of its annotation.
func GivenTo(address string) string {
	return "exported to " + address + "; 'flagship restore resume' takes it back"
}

func (c *Copier) copy(ctx context.Context, p *Plan, item Item, outcome *Outcome) error {
	wanted := cleaned(c.Pruned, item.object)
	switch {
	case item.stage == clusters && c.Held != "":
		wanted = held(wanted, c.Held)
	case item.stage == clusters:
		return c.withhold(ctx, item.resource.GroupVersionResource, wanted, outcome)
	}
	if item.stage == bindings {
		return c.bind(ctx, item, wanted, outcome)
	}
	written, err := c.put(ctx, item.resource.GroupVersionResource, wanted, outcome)
	if err != nil || written == nil || item.stage != clusters {
		return err
	}
	return c.credentials(ctx, p, written, outcome)
}

// withhold copies a Cluster without its credentials. One that has some is refused: its control plane may write to the cluster.
func (c *Copier) withhold(ctx context.Context, gvr schema.GroupVersionResource, wanted *unstructured.Unstructured, outcome *Outcome) error {
	present, err := c.Target.objects.Resource(gvr).Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if err == nil && text(present, "spec", "secretRef", "name") != "" {
		return errors.New("the other control plane has credentials of the cluster, spec.secretRef, and may write to it: stop its controllers, remove that field, and start them again")
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = c.put(ctx, gvr, withoutAccess(wanted), outcome)
	return err
}

// bind copies a binding. The control plane owns all of a binding that exists, so only the clusters of the other one are brought there.
func (c *Copier) bind(ctx context.Context, item Item, wanted *unstructured.Unstructured, outcome *Outcome) error {
	objects := c.Target.objects.Resource(item.resource.GroupVersionResource).Namespace(wanted.GetNamespace())
	present, err := objects.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		created, err := c.put(ctx, item.resource.GroupVersionResource, wanted, outcome)
		if err != nil {
			return err
		}
		return c.decided(ctx, item, created)
	}
	if err != nil {
		return err
	}
	placed, _, _ := unstructured.NestedSlice(wanted.Object, "spec", "clusters") // its types are those of the API
	now, _, _ := unstructured.NestedSlice(present.Object, "spec", "clusters")
	if equality.Semantic.DeepEqual(placed, now) {
		outcome.Unchanged++
		return nil
	}
	if err := unstructured.SetNestedSlice(present.Object, placed, "spec", "clusters"); err != nil {
		return err
	}
	if _, err := objects.Update(ctx, present, metav1.UpdateOptions{FieldManager: c.Manager}); err != nil {
		return err
	}
	outcome.Updated++
	return nil
}

// put creates an object, or brings it up to date if a migration made it. It returns nil for an object that is as it should be.
func (c *Copier) put(ctx context.Context, gvr schema.GroupVersionResource, wanted *unstructured.Unstructured, outcome *Outcome) (*unstructured.Unstructured, error) {
	objects := c.Target.objects.Resource(gvr).Namespace(wanted.GetNamespace())
	present, err := objects.Get(ctx, wanted.GetName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		created, err := objects.Create(ctx, wanted, metav1.CreateOptions{FieldManager: c.Manager})
		if err == nil {
			outcome.Created++
		}
		return created, err
	case err != nil:
		return nil, err
	case isIncluded(wanted.Object, present.Object):
		outcome.Unchanged++
		return nil, nil
	case !c.mayReplace(present):
		return nil, errors.New("the control plane has another object of this name; delete one of the two, and run the command again")
	}
	return c.update(ctx, objects, wanted, present, outcome)
}

// update replaces what a migration wrote earlier. What others added in the metadata since stays.
func (c *Copier) update(ctx context.Context, objects dynamic.ResourceInterface, wanted, present *unstructured.Unstructured, outcome *Outcome) (*unstructured.Unstructured, error) {
	wanted.SetResourceVersion(present.GetResourceVersion())
	wanted.SetUID(present.GetUID())
	wanted.SetLabels(labels.Merge(present.GetLabels(), wanted.GetLabels()))
	wanted.SetAnnotations(labels.Merge(present.GetAnnotations(), wanted.GetAnnotations()))
	wanted.SetFinalizers(present.GetFinalizers())
	updated, err := objects.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: c.Manager})
	if err != nil {
		return nil, err
	}
	outcome.Updated++
	return updated, nil
}

// mayReplace returns whether an object of the target may be replaced. A Cluster that no migration wrote is another member, perhaps.
func (c *Copier) mayReplace(present *unstructured.Unstructured) bool {
	return c.isCopy(present) || c.Overwrite && present.GroupVersionKind().GroupKind() != clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster").GroupKind()
}

// isCopy returns whether a migration wrote an object.
func (c *Copier) isCopy(obj *unstructured.Unstructured) bool {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == c.Manager {
			return true
		}
	}
	return false
}

// isIncluded returns whether present has every field of wanted, with its value: an API server adds defaults.
func isIncluded(wanted, present any) bool {
	fields, ok := wanted.(map[string]any)
	if !ok {
		items, isList := wanted.([]any)
		others, same := present.([]any)
		if !isList || !same || len(items) != len(others) {
			return equality.Semantic.DeepEqual(wanted, present)
		}
		for i := range items {
			if !isIncluded(items[i], others[i]) {
				return false
			}
		}
		return true
	}
	others, ok := present.(map[string]any)
	for key, value := range fields {
		if !ok || !isIncluded(value, others[key]) {
			return false
		}
	}
	return true
}

// credentialFields are those of the spec of a Cluster that name a Secret.
var credentialFields = []string{"secretRef", "impersonatorSecretRef"}

// credentials copies the Secrets that a Cluster names. Each is used only with an ownerReference to that very Cluster.
func (c *Copier) credentials(ctx context.Context, p *Plan, cluster *unstructured.Unstructured, outcome *Outcome) error {
	for _, field := range credentialFields {
		name := text(cluster, "spec", field, "name")
		if name == "" {
			continue
		}
		secret := p.credentials[text(cluster, "spec", field, "namespace")+"/"+name]
		if secret == nil {
			return fmt.Errorf("spec.%s names a Secret that its control plane does not have in %s", field, clusterv1alpha1.ClusterNamespace)
		}
		secret = cleaned(c.Pruned, secret)
		secret.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: cluster.GetAPIVersion(), Kind: cluster.GetKind(), Name: cluster.GetName(), UID: cluster.GetUID(),
		}})
		if _, err := c.put(ctx, schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, secret, outcome); err != nil {
			return fmt.Errorf("copying the Secret %s/%s: %w", secret.GetNamespace(), secret.GetName(), err)
		}
	}
	return nil
}

// decided copies what of a binding's status its next decision depends on.
func (c *Copier) decided(ctx context.Context, item Item, written *unstructured.Unstructured) error {
	status := map[string]any{}
	for _, field := range []string{"schedulerObservingAffinityName", "lastScheduledTime", "conditions"} {
		if value, found, _ := unstructured.NestedFieldCopy(item.object.Object, "status", field); found {
			status[field] = value
		}
	}
	if len(status) == 0 {
		return nil
	}
	status["schedulerObservedGeneration"] = written.GetGeneration()
	written.Object["status"] = status
	_, err := c.Target.objects.Resource(item.resource.GroupVersionResource).Namespace(written.GetNamespace()).
		UpdateStatus(ctx, written, metav1.UpdateOptions{FieldManager: c.Manager})
	if apierrors.IsConflict(err) {
		return nil // the control plane wrote it meanwhile, from the same clusters
	}
	return err
}

// await waits until what was copied can be used: kinds are served, and Clusters are ready that were ready.
func (c *Copier) await(ctx context.Context, p *Plan, copied []Item) error {
	for _, item := range copied {
		var condition string
		switch {
		case item.stage == definitions:
			condition = "Established"
		case item.stage == clusters && c.Held != "" && p.ready.Has(item.object.GetName()) && text(item.object, "spec", "syncMode") != string(clusterv1alpha1.Pull):
			condition = clusterv1alpha1.ClusterConditionReady
		default:
			continue
		}
		var last error
		err := wait.PollUntilContextTimeout(ctx, poll, readyPatience, true, func(ctx context.Context) (bool, error) {
			var present *unstructured.Unstructured
			present, last = c.Target.objects.Resource(item.resource.GroupVersionResource).Get(ctx, item.object.GetName(), metav1.GetOptions{})
			return last == nil && isTrue(present, condition) || apierrors.IsNotFound(last), nil
		})
		if err != nil {
			return fmt.Errorf("%s does not get the condition %s (%w); see 'kubectl describe', and run the command again", item, condition, errors.Join(err, last))
		}
	}
	return nil
}

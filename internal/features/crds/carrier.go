package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/features/crds/compare"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Templates is what the package needs of the store; *hubstore.Store has it.
type Templates interface {
	hubstore.Reader
	Canonical(runtimeschema.GroupVersionKind) (runtimeschema.GroupVersionKind, bool)
	Mapping(runtimeschema.GroupVersionKind) (resource runtimeschema.GroupVersionResource, namespaced, ok bool)
	Subscribe(func(hubstore.Ref))
}

// Deps is what a Carrier needs. All fields are required.
type Deps struct {
	// Templates has the kinds and the definitions of the control plane.
	Templates Templates
	// Versions converts objects to other versions.
	Versions Converter
	// Works reads Works from the cache.
	Works client.Reader
	// Changes has the kinds published whose objects become something else in members after a change of their definition.
	Changes *interpret.Changes
	// Fleet has the connections.
	Fleet *member.Fleet
	// Events publishes what a tightened definition does to objects.
	Events events.Recorder
	// Clock measures the age of counts.
	Clock clock.PassiveClock
}

// Carrier is what definitions and their instances mean for members: a conversion.Adviser for the stages, and a policy for what
// apply may do to definitions. It is a manager.Runnable, for counting objects of members; everything else is read from caches.
type Carrier struct {
	conversion.Unchanged
	deps    Deps
	surveys *surveys

	mu       sync.Mutex
	landings map[subject]landing
	// known are definitions of the hub by name, translated those of them whose objects do not go everywhere as they are.
	known      map[string]knownDefinition
	translated map[string]runtimeschema.GroupKind
}

// New returns a Carrier.
func New(deps Deps) (*Carrier, error) {
	if deps.Templates == nil || deps.Versions == nil || deps.Works == nil || deps.Changes == nil || deps.Fleet == nil || deps.Events == nil || deps.Clock == nil {
		return nil, errors.New("carrying definitions needs Templates, Versions, Works, Changes, Fleet, Events and Clock")
	}
	c := &Carrier{deps: deps, surveys: newSurveys(deps.Clock), landings: map[subject]landing{},
		known: map[string]knownDefinition{}, translated: map[string]runtimeschema.GroupKind{}}
	deps.Templates.Subscribe(func(ref hubstore.Ref) {
		if isDefinitionKind(ref.GroupVersionKind) {
			deps.Changes.Publish(c.redefined(ref.Name))
		}
	})
	deps.Fleet.OnChange(func(change objectcache.Change) {
		if change.Resource == definitions {
			c.forgetLanding(subject{change.Cluster, change.Object.Name})
		}
	})
	deps.Fleet.Subscribe(func(cluster string) {
		if _, connected := deps.Fleet.Get(cluster); !connected {
			c.forgetCluster(cluster)
		}
	})
	return c, nil
}

// Start implements manager.Runnable.
func (c *Carrier) Start(ctx context.Context) error {
	c.surveys.run(ctx)
	return nil
}

// Definition implements conversion.Adviser.
func (c *Carrier) Definition(kind runtimeschema.GroupVersionKind) string {
	if !strings.Contains(kind.Group, ".") {
		return "" // every group of a definition has one
	}
	resource, _, ok := c.deps.Templates.Mapping(kind)
	if !ok {
		return ""
	}
	name := nameOf(resource)
	if _, defined := c.deps.Templates.Meta(hubstore.Ref{GroupVersionKind: definitionKind, Name: name}); !defined && !hubstore.InEveryMember(name) {
		return ""
	}
	return name
}

// Hold returns why objects of a kind have to wait in a cluster: their definition is on its way there. It returns "" if they need not,
// also where the definition cannot come: what is there may be enough.
func (c *Carrier) Hold(ctx context.Context, cluster string, kind runtimeschema.GroupVersionKind) string {
	name := c.Definition(kind)
	if name == "" {
		return ""
	}
	work := &workv1alpha1.Work{}
	key := types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(definitionKind.Kind, "", name),
	}
	if c.deps.Works.Get(ctx, key, work, client.UnsafeDisableDeepCopy) != nil || work.DeletionTimestamp != nil {
		return "" // it does not go there: the cluster may have its own
	}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	reported := applied != nil && applied.ObservedGeneration >= work.Generation
	switch l := c.landing(subject{cluster, name}); {
	case reported && applied.Status != metav1.ConditionTrue:
		return "" // it is held back or refused, which its own Work reports: what the cluster has may be enough
	case !l.present && reported && !c.seen(cluster):
		return "" // after a start the last report counts, until the cluster's definitions are in the cache
	case !l.present:
		return fmt.Sprintf("Waiting for definition %s, which is on its way to cluster %s", name, cluster)
	case !l.established:
		return strings.TrimSuffix(fmt.Sprintf("Waiting for definition %s to be established in cluster %s: %s", name, cluster, l.reason), ": ")
	case !reported:
		return fmt.Sprintf("Waiting for definition %s, a change of which is on its way to cluster %s", name, cluster)
	default:
		return ""
	}
}

// landing returns what the member's watch shows of a definition that the control plane manages.
func (c *Carrier) landing(where subject) landing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.landings[where]; ok {
		return known
	}
	conn, ok := c.deps.Fleet.Get(where.cluster)
	if !ok {
		return landing{}
	}
	obj, ok := conn.Lookup(definitions, "", where.definition)
	if !ok {
		return landing{} // not kept: no event follows when that changes
	}
	l := landingOf(obj)
	c.landings[where] = l
	return l
}

// seen returns whether a definition that the member's watch does not show does not exist.
func (c *Carrier) seen(cluster string) bool {
	conn, ok := c.deps.Fleet.Get(cluster)
	return ok && conn.HasSynced(definitions)
}

func (c *Carrier) forgetLanding(where subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.landings, where)
}

func (c *Carrier) forgetCluster(cluster string) {
	c.surveys.forget(cluster)
	c.mu.Lock()
	defer c.mu.Unlock()
	for where := range c.landings {
		if where.cluster == cluster {
			delete(c.landings, where)
		}
	}
}

// Vet returns why a definition in a member must not be changed into the desired one, or "" if it may. Soon is true if objects are being
// counted, so that the answer changes soon.
func (c *Carrier) Vet(conn *member.Conn, desired, live *unstructured.Unstructured) (reason string, soon bool) {
	if !isDefinition(desired) {
		return "", false
	}
	to, err := read(desired)
	if err != nil {
		return err.Error(), false
	}
	from, err := read(live)
	if err != nil {
		return err.Error(), false
	}
	changes := compare.Compare(&from.Spec, &to.Spec, from.Status.StoredVersions)
	worst := compare.Worst(changes)
	allowed := desired.GetAnnotations()[workv1alpha1.AllowBreakingAnnotation] == "true"
	switch {
	case worst == compare.Impossible:
		return held(conn.Name(), changes, compare.Impossible), false
	case worst == compare.Safe, worst == compare.Breaking && allowed:
		return "", false
	}
	what := held(conn.Name(), changes, compare.Breaking)
	if wanted := commissioned(conn, from, to, changes); len(wanted.versions) > 0 {
		count, counted := c.surveys.ask(subject{conn.Name(), to.Name}, wanted)
		switch {
		case !counted && worst == compare.Breaking:
			return what + "; the objects there are being counted", true
		case !counted, worst == compare.Risky && !count.final():
			return "The objects that a tightened definition concerns are being counted", true
		case worst == compare.Risky && (count.Invalid > 0 || count.Failure != ""):
			c.warn(conn.Name(), to, changes, count)
		}
		what += "; " + count.String()
	}
	if worst == compare.Risky {
		return "", false
	}
	return fmt.Sprintf("%s. Set the annotation %s=true on the definition to let it pass", what, workv1alpha1.AllowBreakingAnnotation), false
}

// held lists the changes of a class that are not made in a cluster.
func held(cluster string, changes []compare.Change, class compare.Class) string {
	return fmt.Sprintf("held back from cluster %s, %s changes: %s", cluster, class, listed(changes, class))
}

func listed(changes []compare.Change, class compare.Class) string {
	var list []string
	for _, change := range changes {
		if change.Class >= class {
			list = append(list, change.String())
		}
	}
	return strings.Join(list, "; ")
}

// commissioned returns the count to be made of the objects that changes concern. It has no versions if they concern no field.
func commissioned(conn *member.Conn, from, to *apiextensionsv1.CustomResourceDefinition, changes []compare.Change) commission {
	wanted := commission{change: betweenOf(from, to), client: conn.Dynamic(), spec: &to.Spec}
	for _, version := range from.Spec.Versions {
		concerns := func(change compare.Change) bool { return change.Version == version.Name && change.Field != "" }
		if version.Served && slices.ContainsFunc(changes, concerns) {
			wanted.versions = append(wanted.versions, version.Name)
		}
	}
	return wanted
}

// betweenOf identifies a pair of definitions. The text of their changes is not enough: it does not list, for example, the values that are
// still allowed.
func betweenOf(from, to *apiextensionsv1.CustomResourceDefinition) string {
	digest := fnv.New64a()
	fmt.Fprint(digest, from.UID, from.Generation)
	if raw, err := json.Marshal(&to.Spec); err == nil { // it was read from JSON
		_, _ = digest.Write(raw) // never fails
	}
	return fmt.Sprintf("%x", digest.Sum(nil))
}

// warn publishes what a change that is made does to objects.
func (c *Carrier) warn(cluster string, to *apiextensionsv1.CustomResourceDefinition, changes []compare.Change, count Count) {
	onHub, ok := c.deps.Templates.Meta(hubstore.Ref{GroupVersionKind: definitionKind, Name: to.Name})
	if !ok {
		return
	}
	apiVersion, kind := definitionKind.ToAPIVersionAndKind()
	c.deps.Events.Publish(events.Warning(
		corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Name: onHub.Name, UID: onHub.UID},
		events.DefinitionTightened,
		fmt.Sprintf("In cluster %s %s. Changes: %s", cluster, count, listed(changes, compare.Risky))))
}

// Differences lists where a definition that others made in a member differs from that of the control plane. Known is false for objects
// that are no definitions.
func (c *Carrier) Differences(desired, live *unstructured.Unstructured) (differences []string, known bool) {
	if !isDefinition(desired) {
		return nil, false
	}
	ours, err := read(desired)
	if err != nil {
		return []string{err.Error()}, true
	}
	theirs, err := read(live)
	if err != nil {
		return []string{err.Error()}, true
	}
	return compare.Differences(&ours.Spec, &theirs.Spec), true
}

// Spare returns whether a definition that is to be deleted in a member has to stay there: others have objects of its kind.
func (c *Carrier) Spare(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured) (bool, error) {
	if !isDefinition(live) || live.GetAnnotations()[workv1alpha1.AllowDeletionAnnotation] == "true" {
		return false, nil
	}
	definition, err := read(live)
	if err != nil {
		return false, err
	}
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		resource := runtimeschema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural}
		found, err := conn.Dynamic().Resource(resource).List(ctx, metav1.ListOptions{
			LabelSelector: workv1alpha1.ManagedLabel + "!=" + workv1alpha1.ManagedLabelValue, Limit: 1,
		})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("listing objects of %s that the control plane does not manage: %w", definition.Name, err)
		}
		if len(found.Items) > 0 {
			return true, nil
		}
		return othersManage(ctx, conn, resource)
	}
	return false, nil
}

// othersManage returns whether another control plane has objects of a resource.
func othersManage(ctx context.Context, conn *member.Conn, resource runtimeschema.GroupVersionResource) (bool, error) {
	options := metav1.ListOptions{LabelSelector: workv1alpha1.ManagedLabel + "=" + workv1alpha1.ManagedLabelValue, Limit: managedPage}
	for {
		page, err := conn.Dynamic().Resource(resource).List(ctx, options)
		if err != nil {
			return false, fmt.Errorf("listing objects of %s that other control planes manage: %w", resource.GroupResource(), err)
		}
		for i := range page.Items {
			if conn.ControlPlane().Other(&page.Items[i]) != "" {
				return true, nil
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return false, nil
		}
	}
}

// managedPage bounds one answer of a list of managed objects.
const managedPage = 500

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
	"github.com/flagship-k8s/flagship/internal/clients/member"
	"github.com/flagship-k8s/flagship/internal/clients/member/objectcache"
	"github.com/flagship-k8s/flagship/internal/features/crds/compare"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Names finds the definitions that the control plane has for members.
type Names interface {
	// Named returns the name of the definition of a kind that can go to members with its objects; "" if there is none.
	Named(context.Context, runtimeschema.GroupVersionKind) string
	// Reference returns what events about a definition are about; false if there is nothing.
	Reference(ctx context.Context, definition string) (corev1.ObjectReference, bool)
}

// PolicyDeps is what a Policy needs. All fields are required.
type PolicyDeps struct {
	Names Names
	// Works reads Works from the cache.
	Works client.Reader
	// Fleet has the connections.
	Fleet *member.Fleet
	// Events publishes what a tightened definition does to objects.
	Events events.Recorder
	// Clock measures the age of counts.
	Clock clock.PassiveClock
}

// Policy is what apply may do to definitions in members, and which objects wait for their definition. It is a manager.Runnable, for
// counting objects of members; everything else is read from caches.
type Policy struct {
	deps    PolicyDeps
	surveys *surveys

	mu       sync.Mutex
	landings map[subject]landing
}

// NewPolicy returns a Policy.
func NewPolicy(deps PolicyDeps) (*Policy, error) {
	if deps.Names == nil || deps.Works == nil || deps.Fleet == nil || deps.Events == nil || deps.Clock == nil {
		return nil, errors.New("the policy of definitions needs Names, Works, Fleet, Events and Clock")
	}
	p := &Policy{deps: deps, surveys: newSurveys(deps.Clock), landings: map[subject]landing{}}
	deps.Fleet.OnChange(func(change objectcache.Change) {
		if change.Resource == definitions {
			p.forgetLanding(subject{change.Cluster, change.Object.Name})
		}
	})
	deps.Fleet.Subscribe(func(cluster string) {
		if _, connected := deps.Fleet.Get(cluster); !connected {
			p.forgetCluster(cluster)
		}
	})
	return p, nil
}

// Start implements manager.Runnable.
func (p *Policy) Start(ctx context.Context) error {
	p.surveys.run(ctx)
	return nil
}

// Hold returns why objects of a kind have to wait in a cluster: their definition is on its way there. It returns "" if they need not,
// also where the definition cannot come: what is there may be enough.
func (p *Policy) Hold(ctx context.Context, cluster string, kind runtimeschema.GroupVersionKind) string {
	name := p.deps.Names.Named(ctx, kind)
	if name == "" {
		return ""
	}
	work := &workv1alpha1.Work{}
	key := types.NamespacedName{
		Namespace: workv1alpha1.ExecutionNamespace(cluster), Name: workv1alpha1.WorkName(definitionKind.Kind, "", name),
	}
	if p.deps.Works.Get(ctx, key, work, client.UnsafeDisableDeepCopy) != nil || work.DeletionTimestamp != nil {
		return "" // it does not go there: the cluster may have its own. The cache fails only before it is started.
	}
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1alpha1.WorkApplied)
	reported := applied != nil && applied.ObservedGeneration >= work.Generation
	switch l := p.landing(subject{cluster, name}); {
	case reported && applied.Status != metav1.ConditionTrue:
		return "" // it is held back or refused, which its own Work reports: what the cluster has may be enough
	case !l.present && reported && !p.seen(cluster):
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
func (p *Policy) landing(where subject) landing {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.landings[where]; ok {
		return known
	}
	conn, ok := p.deps.Fleet.Get(where.cluster)
	if !ok {
		return landing{}
	}
	obj, ok := conn.Lookup(definitions, "", where.definition)
	if !ok {
		return landing{} // not kept: no event follows when that changes
	}
	l := landingOf(obj)
	p.landings[where] = l
	return l
}

// seen returns whether a definition that the member's watch does not show does not exist.
func (p *Policy) seen(cluster string) bool {
	conn, ok := p.deps.Fleet.Get(cluster)
	return ok && conn.HasSynced(definitions)
}

func (p *Policy) forgetLanding(where subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.landings, where)
}

func (p *Policy) forgetCluster(cluster string) {
	p.surveys.forget(cluster)
	p.mu.Lock()
	defer p.mu.Unlock()
	for where := range p.landings {
		if where.cluster == cluster {
			delete(p.landings, where)
		}
	}
}

// Vet returns why a definition in a member must not be changed into the desired one, or "" if it may. Soon is true if objects are being
// counted, so that the answer changes soon.
func (p *Policy) Vet(ctx context.Context, conn *member.Conn, desired, live *unstructured.Unstructured) (reason string, soon bool) {
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
	what := heldBack(conn.Name(), changes, desired)
	switch {
	case worst == compare.Impossible:
		return what, false
	case worst == compare.Safe, worst == compare.Breaking && what == "":
		return "", false
	}
	if wanted := commissioned(conn, from, to, changes); len(wanted.versions) > 0 {
		count, counted := p.surveys.ask(subject{conn.Name(), to.Name}, wanted)
		switch {
		case !counted && worst == compare.Breaking:
			return what + "; the objects there are being counted", true
		case !counted, worst == compare.Risky && !count.final():
			return "The objects that a tightened definition concerns are being counted", true
		case worst == compare.Risky && (count.Invalid > 0 || count.Failure != ""):
			p.warn(ctx, conn.Name(), to, changes, count)
		}
		what += "; " + count.String()
	}
	if worst == compare.Risky {
		return "", false
	}
	return what + ". " + mayPass, false
}

const mayPass = "Set the annotation " + workv1alpha1.AllowBreakingAnnotation + "=true on the definition to let it pass"

// heldBack returns which changes are not made in a cluster; "" if all may be made, once the objects that they concern are counted.
func heldBack(cluster string, changes []compare.Change, desired *unstructured.Unstructured) string {
	switch worst := compare.Worst(changes); {
	case worst == compare.Impossible:
		return held(cluster, changes, compare.Impossible)
	case worst == compare.Breaking && desired.GetAnnotations()[workv1alpha1.AllowBreakingAnnotation] != "true":
		return held(cluster, changes, compare.Breaking)
	}
	return ""
}

// HeldBack returns which changes from a definition that the control plane sent to a cluster are not made there, and what to do about it; ""
// if all may be made, or if the objects are no definitions. Objects in the cluster are not counted.
func HeldBack(cluster string, sent, desired *unstructured.Unstructured) string {
	if !isDefinition(sent) || !isDefinition(desired) {
		return ""
	}
	from, err := read(sent)
	if err != nil {
		return err.Error()
	}
	to, err := read(desired)
	if err != nil {
		return err.Error()
	}
	var stored []string
	for _, version := range from.Spec.Versions {
		if version.Storage {
			stored = append(stored, version.Name)
		}
	}
	changes := compare.Compare(&from.Spec, &to.Spec, stored)
	what := heldBack(cluster, changes, desired)
	if what == "" || compare.Worst(changes) == compare.Impossible {
		return what
	}
	return what + ". " + mayPass
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
func (p *Policy) warn(ctx context.Context, cluster string, to *apiextensionsv1.CustomResourceDefinition, changes []compare.Change, count Count) {
	about, ok := p.deps.Names.Reference(ctx, to.Name)
	if !ok {
		return
	}
	p.deps.Events.Publish(events.Warning(about,
		events.DefinitionTightened,
		fmt.Sprintf("In cluster %s %s. Changes: %s", cluster, count, listed(changes, compare.Risky))))
}

// Differences lists where a definition that others made in a member differs from that of the control plane. Known is false for objects
// that are no definitions.
func (p *Policy) Differences(desired, live *unstructured.Unstructured) (differences []string, known bool) {
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
func (p *Policy) Spare(ctx context.Context, conn *member.Conn, live *unstructured.Unstructured) (bool, error) {
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
	for pages := (bounds.Pages{}); ; {
		page, err := conn.Dynamic().Resource(resource).List(ctx, options)
		if err != nil {
			return false, fmt.Errorf("listing objects of %s that other control planes manage: %w", resource.GroupResource(), err)
		}
		for i := range page.Items {
			if conn.ControlPlane().Other(&page.Items[i]) != "" {
				return true, nil
			}
		}
		if err := pages.Next(len(page.Items), page.GetContinue()); err != nil {
			return false, fmt.Errorf("listing objects of %s that other control planes manage: %w", resource.GroupResource(), err)
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return false, nil
		}
	}
}

// managedPage bounds one answer of a list of managed objects.
const managedPage = 500

package checks

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

func isForbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

// Brakes checks what waits for a person.
func Brakes(f Facts) []Result {
	r := &report{check: "brakes"}
	if r.unread("clusters", f.Clusters.Err) {
		return r.done("")
	}
	next := map[string]string{
		clusterv1alpha1.ClusterConditionBrakeEngaged:    "see what waits with 'flagship explain', then 'flagship release-brake %s'",
		clusterv1alpha1.ClusterConditionDispatchingHeld: "'flagship restore status --cluster %[1]s', then 'flagship restore resume --cluster %[1]s'",
		clusterv1alpha1.ClusterConditionEvictionHeld:    "'flagship failover status', then 'flagship failover release %s'",
	}
	for i := range f.Clusters.Value {
		c := &f.Clusters.Value[i]
		for _, found := range c.Status.Conditions {
			if then := next[found.Type]; then != "" && found.Status == metav1.ConditionTrue {
				if then = fmt.Sprintf(then, c.Name); found.Reason == clusterv1alpha1.HeldByAnnotationReason {
					then = "" // the message has it
				}
				r.add(Warning, then, "%s: %s (%s): %s", c.Name, found.Type, found.Reason, found.Message)
			}
		}
	}
	return r.done("none is engaged")
}

// bad are the conditions that report a trouble, by the status with which they do.
func bad(kind string, c metav1.Condition) bool {
	switch kind {
	case "Cluster":
		return c.Status == metav1.ConditionFalse &&
			(c.Type == clusterv1alpha1.ClusterConditionCompleteAPIEnablements || c.Type == clusterv1alpha1.ClusterConditionResourcesReadable)
	case "Work":
		return c.Status == metav1.ConditionFalse && c.Type == workv1alpha1.WorkApplied ||
			c.Status == metav1.ConditionTrue && (c.Type == workv1alpha1.WorkDegraded || c.Type == workv1alpha1.WorkDrifted)
	default: // FullyApplied and Drifted are in the Works
		return c.Status == metav1.ConditionFalse && (c.Type == workv1alpha2.Scheduled || c.Type == workv1alpha2.Rendered || c.Type == workv1alpha2.StatePreserved) ||
			c.Status == metav1.ConditionTrue && c.Type == workv1alpha2.EvictionHeld
	}
}

// Conditions checks the conditions of Clusters, bindings and Works.
func Conditions(f Facts) []Result {
	r := &report{check: "conditions"}
	if !r.unread("clusters", f.Clusters.Err) {
		for i := range f.Clusters.Value {
			c := &f.Clusters.Value[i]
			for _, found := range c.Status.Conditions {
				if bad("Cluster", found) {
					r.add(Warning, "", "Cluster %s: %s (%s): %s", c.Name, found.Type, found.Reason, found.Message)
				}
			}
		}
	}
	for _, list := range []struct {
		what string
		read Read[[]Object]
	}{{"bindings", f.Bindings}, {"Works", f.Works}} {
		if r.unread(list.what, list.read.Err) {
			continue
		}
		for _, o := range list.read.Value {
			for _, found := range o.Conditions {
				if bad(o.Kind, found) {
					r.add(Warning, explainNext(o), "%s: %s (%s): %s", o, found.Type, found.Reason, found.Message)
				}
			}
		}
	}
	return r.done("%d bindings and %d Works have none that reports a trouble", len(f.Bindings.Value), len(f.Works.Value))
}

// explainNext is the command that explains an object.
func explainNext(o Object) string {
	if o.Template.Kind == "" {
		return ""
	}
	command := "flagship explain " + strings.ToLower(o.Template.Kind) + "/" + o.Template.Name
	if o.Template.Namespace != "" {
		command += " -n " + o.Template.Namespace
	}
	return "'" + command + "'"
}

// Deleting checks for objects whose deletion does not end.
func Deleting(f Facts) []Result {
	r := &report{check: "deleting"}
	long := func(o Object) {
		if o.Deleted.IsZero() || f.Now.Sub(o.Deleted) < f.Patience {
			return
		}
		r.add(Warning, "docs/troubleshooting.md#an-object-cannot-be-deleted", "%s: deleted %s ago, held by %s", o,
			duration.HumanDuration(f.Now.Sub(o.Deleted)), orNothing(strings.Join(o.Finalizers, ", ")))
	}
	for _, list := range []struct {
		what string
		read Read[[]Object]
	}{{"bindings", f.Bindings}, {"Works", f.Works}, {"namespaces", f.Namespaces}} {
		if r.unread(list.what, list.read.Err) {
			continue
		}
		for _, o := range list.read.Value {
			long(o)
		}
	}
	if !r.unread("clusters", f.Clusters.Err) {
		for i := range f.Clusters.Value {
			if c := &f.Clusters.Value[i]; c.DeletionTimestamp != nil {
				long(Object{Kind: "Cluster", Name: c.Name, Deleted: c.DeletionTimestamp.Time, Finalizers: c.Finalizers})
			}
		}
	}
	return r.done("no deletion takes longer than %s", duration.HumanDuration(f.Patience))
}

func orNothing(text string) string {
	if text == "" {
		return "what is in it"
	}
	return text
}

// OrphanedWorks checks for what is on the control plane and belongs to nothing there: Works without binding, bindings without template,
// execution namespaces without Cluster.
func OrphanedWorks(f Facts) []Result {
	r := &report{check: "orphaned-works"}
	settled := func(o Object) bool { return o.Deleted.IsZero() && f.Now.Sub(o.Created) > f.Patience }
	if !r.unread("bindings", f.Bindings.Err) && !r.unread("Works", f.Works.Err) {
		known := map[string]bool{}
		for _, b := range f.Bindings.Value {
			known[b.Namespace+"/"+b.Name] = true
		}
		for _, w := range f.Works.Value {
			if w.Binding != "" && !known[w.Binding] && settled(w) {
				r.add(Warning, "its object stays in the member; delete the Work to remove both", "%s: its binding %s does not exist", w, strings.TrimPrefix(w.Binding, "/"))
			}
		}
	}
	r.unread("templates", f.Templates.Err) // of some kinds; the others are judged
	if f.Bindings.Err == nil {
		for _, b := range f.Bindings.Value {
			if exists, read := f.Templates.Value[b.Template]; read && !exists && settled(b) {
				r.add(Warning, "delete the binding to remove its objects in members", "%s: its template %s %s does not exist", b, b.Template.Kind, b.Template.Name)
			}
		}
	}
	if f.Clusters.Err == nil && !r.unread("namespaces", f.Namespaces.Err) {
		known := map[string]bool{}
		for i := range f.Clusters.Value {
			known[f.Clusters.Value[i].Name] = true
		}
		for _, ns := range f.Namespaces.Value {
			if cluster, is := workv1alpha1.ClusterOfExecutionNamespace(ns.Name); is && !known[cluster] && settled(ns) {
				r.add(Warning, "delete the namespace if the cluster does not come back", "%s: there is no Cluster %s", ns, cluster)
			}
		}
	}
	return r.done("no Work, binding or execution namespace is left over")
}

// OrphanedObjects checks for objects in members that have no Work.
func OrphanedObjects(f Facts) []Result {
	r := &report{check: "orphaned-objects"}
	if r.unread("orphans", f.Orphans.Err) {
		return r.done("")
	}
	for _, member := range f.Orphans.Value {
		switch {
		case member.Err != "":
			r.add(Unchecked, "", "%s: %s", member.Cluster, member.Err)
		case member.Count > 0:
			r.add(Warning, "'flagship orphans --cluster "+member.Cluster+"' lists them", "%s: %d objects of this control plane have no Work", member.Cluster, member.Count)
		}
	}
	return r.done("no object in a member is without its Work")
}

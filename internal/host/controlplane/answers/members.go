package answers

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
)

const (
	// maxMembers is how many members one answer reads from, all at the same time.
	maxMembers = 5
	// memberPatience is how long a read in a member may take.
	memberPatience = 5 * time.Second
	// maxPods is how many pods of a member are read.
	maxPods = 200
	// maxWarnings is how many warnings of a member about one object are read.
	maxWarnings = 50
)

// AsUser returns the configuration of a client of the control plane that sends each request as a user.
type AsUser = func(user.Info) *rest.Config

// proxied is a configuration that sends each request to clusters/NAME/proxy of the control plane as the author: it is authorized and audited, and
// has the rights in the member, as if the author had sent it.
func proxied(as AsUser, cluster string, author user.Info) *rest.Config {
	config := as(author)
	config.Host += clusterv1alpha1.ProxyPath(cluster)
	return config
}

// ThroughProxy returns clients of members that have the rights of the author.
func ThroughProxy(as AsUser) func(cluster string, author user.Info) (dynamic.Interface, error) {
	return func(cluster string, author user.Info) (dynamic.Interface, error) {
		members, err := dynamic.NewForConfig(proxied(as, cluster, author))
		if err != nil {
			return nil, fmt.Errorf("making a client of cluster %s: %w", cluster, err)
		}
		return members, nil
	}
}

// KindsThroughProxy returns the kinds that members serve, each in the version that its member prefers, as far as the author may read its discovery.
func KindsThroughProxy(as AsUser) func(ctx context.Context, cluster string, author user.Info) ([]hubstore.Kind, error) {
	return func(ctx context.Context, cluster string, author user.Info) ([]hubstore.Kind, error) {
		member, err := discovery.NewDiscoveryClientForConfig(proxied(as, cluster, author))
		if err != nil {
			return nil, fmt.Errorf("making a discovery client of cluster %s: %w", cluster, err)
		}
		lists, err := discovery.ServerPreferredResourcesWithContext(ctx, member)
		if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // the other groups are there
			return nil, err
		}
		var kinds []hubstore.Kind
		for _, list := range lists {
			version, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				return nil, fmt.Errorf("reading the kinds of cluster %s: %w", cluster, err)
			}
			for _, r := range list.APIResources {
				kinds = append(kinds, hubstore.Kind{
					GroupVersionKind: version.WithKind(r.Kind), Resource: version.WithResource(r.Name), Namespaced: r.Namespaced,
				})
			}
		}
		return kinds, nil
	}
}

// inMember explains an object in a member, also of a kind that the control plane does not propagate or does not serve.
func (a *Answerer) inMember(ctx context.Context, spec *fleetv1alpha1.ExplanationSpec, author user.Info, may func(explain.Right) bool) (fleetv1alpha1.ExplanationStatus, error) {
	if len(path.IsValidPathSegmentName(spec.Member)) > 0 || spec.Member == "*" { // "*" are all clusters in the path of the proxy
		return fleetv1alpha1.ExplanationStatus{}, apierrors.NewBadRequest(fmt.Sprintf("spec.member %q is no name of a cluster", spec.Member))
	}
	kind, err := a.kindIn(ctx, spec, author)
	if err != nil {
		return fleetv1alpha1.ExplanationStatus{}, err
	}
	ref := refOf(kind, spec.Namespace, spec.Name)
	_, onHub := a.Templates.Meta(ref)
	onHub = onHub && may(rightOf(kind, ref))
	identity := identityOf(ref)
	obj, podSteps, err := a.read(ctx, spec.Member, kind, ref, author)
	switch {
	case apierrors.IsNotFound(err):
		status := fleetv1alpha1.ExplanationStatus{Summary: fmt.Sprintf("There is no %s in %s: %s.", ref, spec.Member, err)}
		if onHub {
			status.Instead = []fleetv1alpha1.ObjectIdentity{identity}
		}
		return status, nil
	case err != nil:
		return fleetv1alpha1.ExplanationStatus{}, unanswered(err)
	}
	status := fleetv1alpha1.ExplanationStatus{Object: explain.IdentityOf(obj)}
	steps := explain.Object(obj, spec.Member, a.ControlPlane)
	if onHub {
		template := explain.Step{ExplanationStep: fleetv1alpha1.ExplanationStep{
			Stage: fleetv1alpha1.StageTemplate, Outcome: fleetv1alpha1.OutcomeDone, Object: &identity, Message: "is on the control plane",
		}}
		steps = append([]explain.Step{template}, steps...)
	}
	status.Steps = explain.Visible(append(steps, podSteps...), may)
	status.Summary = explain.Summary(status.Steps)
	return status, nil
}

// kindIn is the kind of a question about an object in a member: as the control plane propagates it, else as the member serves it.
func (a *Answerer) kindIn(ctx context.Context, spec *fleetv1alpha1.ExplanationSpec, author user.Info) (hubstore.Kind, error) {
	if found := matching(a.Templates.Kinds(), spec.Group, spec.Kind, spec.Resource); len(found) > 0 {
		return found[0], nil
	}
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	served, err := a.Kinds(ctx, spec.Member, author)
	if err != nil {
		return hubstore.Kind{}, unanswered(err)
	}
	found := matching(served, spec.Group, spec.Kind, spec.Resource)
	if len(found) == 0 {
		return hubstore.Kind{}, apierrors.NewBadRequest(fmt.Sprintf("%q is no kind that cluster %s serves: kubectl get --raw %s/apis lists its groups",
			strings.TrimPrefix(spec.Group+" "+spec.Kind+spec.Resource, " "), spec.Member, clusterv1alpha1.ProxyPath(spec.Member)))
	}
	return found[0], nil
}

// unanswered is the error about a member: an answer of an API server, or that there was none.
func unanswered(err error) error {
	if apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		return apierrors.NewServiceUnavailable("the member does not answer: " + err.Error())
	}
	return err
}

// read reads an object in a member and, if it is a workload, the steps about its pods and the warnings about it.
func (a *Answerer) read(ctx context.Context, cluster string, kind hubstore.Kind, ref hubstore.Ref, author user.Info) (*unstructured.Unstructured, []explain.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	member, err := a.Members(cluster, author)
	if err != nil {
		return nil, nil, err
	}
	obj, err := member.Resource(kind.Resource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	if !explain.HasPods(obj) {
		return obj, nil, nil
	}
	var steps []explain.Step
	if selector := explain.PodSelector(obj); selector != "" {
		pods, err := listed[corev1.Pod](ctx, member, "pods", ref.Namespace, metav1.ListOptions{LabelSelector: selector, Limit: maxPods})
		switch {
		case apierrors.IsForbidden(err):
			return obj, []explain.Step{unread(cluster, err)}, nil // the author may get the object, and not its pods
		case err != nil:
			return nil, nil, err
		}
		steps = explain.Pods(cluster, pods)
	}
	about := fields.Set{"involvedObject.uid": string(obj.GetUID()), "type": corev1.EventTypeWarning}.String()
	warnings, err := listed[corev1.Event](ctx, member, "events", ref.Namespace, metav1.ListOptions{FieldSelector: about, Limit: maxWarnings})
	if err != nil && !apierrors.IsForbidden(err) { // they only add to what the pods say
		return nil, nil, err
	}
	return obj, append(steps, explain.Warnings(cluster, obj, warnings)...), nil
}

// listed reads objects of a member.
func listed[T any](ctx context.Context, member dynamic.Interface, resource, namespace string, options metav1.ListOptions) ([]T, error) {
	list, err := member.Resource(corev1.SchemeGroupVersion.WithResource(resource)).Namespace(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	items := make([]T, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &items[i]); err != nil {
			return nil, fmt.Errorf("reading %s: %w", resource, err)
		}
	}
	return items, nil
}

// failing reads the pods of the first targets in which the object is not healthy. An author who may not get the binding does not see
// which clusters these are. What is no workload has no pods.
func (a *Answerer) failing(ctx context.Context, ref hubstore.Ref, facts *explain.Facts, author user.Info, may func(explain.Right) bool) []explain.Step {
	if !explain.HasPods(facts.Template) {
		return nil
	}
	var clusters []string
	for i := range facts.Targets {
		if t := &facts.Targets[i]; t.Work != nil && len(clusters) < maxMembers {
			for _, m := range t.Work.Status.ManifestStatuses {
				if m.Health != workv1alpha1.ResourceHealthy {
					clusters = append(clusters, t.Name)
					break
				}
			}
		}
	}
	if len(clusters) == 0 || !may(explain.BindingRight(facts.Binding)) {
		return nil
	}
	var kind hubstore.Kind
	for _, k := range a.Templates.Kinds() {
		if k.GroupVersionKind == ref.GroupVersionKind {
			kind = k
		}
	}
	found := make([][]explain.Step, len(clusters))
	var group errgroup.Group
	for i, cluster := range clusters {
		group.Go(func() error {
			err := controlloop.CatchPanic(func() (err error) {
				_, found[i], err = a.read(ctx, cluster, kind, ref, author)
				return err
			})
			if err != nil {
				found[i] = []explain.Step{unread(cluster, err)}
			}
			return nil
		})
	}
	_ = group.Wait() // each member has its steps
	var steps []explain.Step
	for _, s := range found {
		steps = append(steps, s...)
	}
	return steps
}

// unread is the step about a member whose pods were not read.
func unread(cluster string, err error) explain.Step {
	step := explain.Step{ExplanationStep: fleetv1alpha1.ExplanationStep{
		Stage: fleetv1alpha1.StageMember, Outcome: fleetv1alpha1.OutcomeWaiting, Cluster: cluster, Message: "the pods are not read: " + err.Error(),
	}}
	if apierrors.IsForbidden(err) {
		step.Outcome, step.Message = fleetv1alpha1.OutcomeHidden, "the pods are not shown: that needs clusters/proxy, and rights in the member"
	}
	step.Reason = cmp.Or(string(apierrors.ReasonForError(err)), "Unreachable")
	return step
}

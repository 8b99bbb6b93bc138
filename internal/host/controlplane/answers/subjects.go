package answers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/override"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
)

const (
	// maxSelected is how many templates of a policy are in an answer.
	maxSelected = 50
	// maxOverridden is how many templates of an override policy are in an answer: each is read and edited for each of its clusters.
	maxOverridden = 10
)

// subject is a kind of the control plane that can be explained and is no template.
type subject struct {
	group, version, kind, resource string
	list                           client.ObjectList // empty, to read into
	// explain returns no steps if there is no such object.
	explain func(*Answerer, context.Context, client.ObjectKey, func(explain.Right) bool) ([]explain.Step, error)
}

// subjectOf returns the kind that a question is about, nil if it is none of these.
func subjectOf(spec *fleetv1alpha1.ExplanationSpec) *subject {
	if spec.Name == "" || spec.Member != "" || (spec.Kind == "") == (spec.Resource == "") {
		return nil
	}
	policies, work, cluster := policyv1alpha1.SchemeGroupVersion, workv1alpha1.GroupVersion, clusterv1alpha1.GroupVersion
	for _, s := range []subject{
		{policies.Group, policies.Version, policyv1alpha1.KindPropagationPolicy, policyv1alpha1.ResourcePluralPropagationPolicy, &policyv1alpha1.PropagationPolicyList{}, (*Answerer).propagation},
		{policies.Group, policies.Version, policyv1alpha1.KindClusterPropagationPolicy, policyv1alpha1.ResourcePluralClusterPropagationPolicy, &policyv1alpha1.ClusterPropagationPolicyList{}, (*Answerer).propagation},
		{policies.Group, policies.Version, policyv1alpha1.KindOverridePolicy, policyv1alpha1.ResourcePluralOverridePolicy, &policyv1alpha1.OverridePolicyList{}, (*Answerer).override},
		{policies.Group, policies.Version, policyv1alpha1.KindClusterOverridePolicy, policyv1alpha1.ResourcePluralClusterOverridePolicy, &policyv1alpha1.ClusterOverridePolicyList{}, (*Answerer).override},
		{cluster.Group, cluster.Version, clusterv1alpha1.KindCluster, clusterv1alpha1.ResourcePluralCluster, &clusterv1alpha1.ClusterList{}, (*Answerer).cluster},
		{work.Group, work.Version, workv1alpha1.KindWork, workv1alpha1.ResourcePluralWork, &workv1alpha1.WorkList{}, (*Answerer).wholeWork},
	} {
		if (spec.Group == "" || spec.Group == s.group) && (strings.EqualFold(spec.Kind, s.kind) || strings.EqualFold(spec.Resource, s.resource)) {
			return &s
		}
	}
	return nil
}

// subject explains an object of the control plane that is no template.
func (a *Answerer) subject(ctx context.Context, s *subject, spec *fleetv1alpha1.ExplanationSpec, may func(explain.Right) bool) (fleetv1alpha1.ExplanationStatus, error) {
	key := client.ObjectKey{Namespace: spec.Namespace, Name: spec.Name}
	if strings.HasPrefix(s.kind, "Cluster") {
		key.Namespace = ""
	} else if key.Namespace == "" { // a cluster-wide policy of the name, to which this right is none
		return fleetv1alpha1.ExplanationStatus{}, apierrors.NewBadRequest("spec needs the namespace of the " + s.kind)
	}
	if !may(explain.Right{Group: s.group, Resource: s.resource, Namespace: key.Namespace, Name: key.Name}) {
		return fleetv1alpha1.ExplanationStatus{}, forbidden(s.group, s.resource, spec.Name)
	}
	steps, err := s.explain(a, ctx, key, may)
	switch {
	case err != nil:
		return fleetv1alpha1.ExplanationStatus{}, err
	case len(steps) == 0:
		return a.absentSubject(ctx, s, key, may)
	}
	object := s.identity(key)
	status := fleetv1alpha1.ExplanationStatus{Object: &object, Steps: explain.Visible(steps, may)}
	status.Summary = explain.Summary(status.Steps)
	return status, nil
}

// identity is the object of a name.
func (s *subject) identity(key client.ObjectKey) fleetv1alpha1.ObjectIdentity {
	return fleetv1alpha1.ObjectIdentity{APIVersion: s.group + "/" + s.version, Kind: s.kind, Namespace: key.Namespace, Name: key.Name}
}

// absentSubject names what there is instead of an object that is no template, of what the user may get.
func (a *Answerer) absentSubject(ctx context.Context, s *subject, key client.ObjectKey, may func(explain.Right) bool) (fleetv1alpha1.ExplanationStatus, error) {
	status := fleetv1alpha1.ExplanationStatus{Summary: fmt.Sprintf("There is no %s %s.", s.kind, strings.TrimPrefix(key.String(), "/"))}
	if err := a.Reader.List(ctx, s.list); err != nil {
		return status, fmt.Errorf("listing %s: %w", s.resource, err)
	}
	checked := 0
	err := meta.EachListItem(s.list, func(o runtime.Object) error {
		found, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		similar := explain.Similar(found.GetName(), key.Name)
		if (found.GetNamespace() != key.Namespace || !similar) && found.GetName() != key.Name {
			return nil
		}
		right := explain.Right{Group: s.group, Resource: s.resource, Namespace: found.GetNamespace(), Name: found.GetName()}
		if checked++; len(status.Instead) < maxInstead && checked <= maxChecked && may(right) {
			status.Instead = append(status.Instead, s.identity(client.ObjectKey{Namespace: found.GetNamespace(), Name: found.GetName()}))
		}
		return nil
	})
	return status, err
}

// propagation explains a propagation policy.
func (a *Answerer) propagation(ctx context.Context, key client.ObjectKey, may func(explain.Right) bool) ([]explain.Step, error) {
	p, err := hubclient.Policies{Reader: a.Reader}.Get(ctx, policy.Key{Namespace: key.Namespace, Name: key.Name})
	if p == nil || err != nil {
		return nil, err
	}
	kinds := map[hubstore.Kind]bool{}
	for _, kind := range a.Templates.Kinds() {
		subject := policy.Subject{GroupVersionKind: kind.GroupVersionKind, OtherVersions: a.Templates.OtherVersions(kind.GroupVersionKind)}
		for _, selector := range p.PropagationSpec().ResourceSelectors {
			if subject.Is(policy.KindOf(selector)) {
				kinds[kind] = true
			}
		}
	}
	var selected []explain.Selected
	for kind := range kinds {
		versions := a.Templates.OtherVersions(kind.GroupVersionKind)
		for _, meta := range a.Templates.List(kind.GroupVersionKind, key.Namespace, labels.Everything()) {
			owner := policy.ClaimOn(meta).Policy
			ref := refOf(kind, meta.Namespace, meta.Name)
			if owner != policy.KeyOf(p) && policy.Match(policy.SubjectOf(kind.GroupVersionKind, meta, versions), p) == policy.RankNone ||
				len(selected) == maxSelected || !may(rightOf(kind, ref)) {
				continue
			}
			s := explain.Selected{Owner: owner, Template: identityOf(ref)}
			if s.Binding, err = a.binding(ctx, ref); err != nil {
				return nil, err
			}
			selected = append(selected, s)
		}
	}
	slices.SortFunc(selected, func(x, y explain.Selected) int {
		return strings.Compare(x.Template.Kind+"/"+x.Template.Namespace+"/"+x.Template.Name, y.Template.Kind+"/"+y.Template.Namespace+"/"+y.Template.Name)
	})
	return explain.Propagation(p, selected), nil
}

// override explains an override policy by what it does to the templates that have a binding.
func (a *Answerer) override(ctx context.Context, key client.ObjectKey, may func(explain.Right) bool) ([]explain.Step, error) {
	rules, err := hubclient.Overrides(ctx, a.Reader, key.Namespace)
	if err != nil {
		return nil, err
	}
	index := slices.IndexFunc(rules, func(o policyv1alpha1.Override) bool { return client.ObjectKeyFromObject(o) == key })
	if index < 0 {
		return nil, nil
	}
	found := rules[index]
	var scope []client.ListOption
	if key.Namespace != "" {
		scope = append(scope, client.InNamespace(key.Namespace))
	}
	bound, err := hubclient.Bindings(ctx, a.Reader, scope...)
	if err != nil {
		return nil, err
	}
	var steps []explain.Step
	explained := 0
	for _, binding := range bound {
		ref := hubstore.TemplateOf(binding.BindingSpec())
		meta, ok := a.Templates.Meta(ref)
		if !ok || explained == maxOverridden || key.Namespace != "" && ref.Namespace != key.Namespace {
			continue
		}
		target := override.Target{
			APIVersion: ref.GroupVersionKind.GroupVersion().String(), Kind: ref.GroupVersionKind.Kind, Namespace: ref.Namespace, Name: ref.Name, Labels: meta.Labels,
		}
		if override.Selects(found, target) == override.Unselected || !a.mayGet(ref, may) {
			continue
		}
		explained++
		template, err := a.Templates.Get(ctx, ref)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		facts := explain.Facts{Template: template, Binding: binding}
		if err := a.targets(ctx, "", &facts); err != nil {
			return nil, err
		}
		steps = append(steps, explain.Override(override.PolicyName(found), ref.GroupVersionKind.Kind+" "+strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/"), binding, facts.Targets)...)
	}
	if len(steps) == 0 {
		return []explain.Step{{ExplanationStep: fleetv1alpha1.ExplanationStep{
			Stage: fleetv1alpha1.StageOverride, Outcome: fleetv1alpha1.OutcomeWaiting, Reason: "NothingSelected",
			Message: "selects no object that you may get and that is in a cluster",
		}}}, nil
	}
	return steps, nil
}

func (a *Answerer) mayGet(ref hubstore.Ref, may func(explain.Right) bool) bool {
	for _, kind := range a.Templates.Kinds() {
		if kind.GroupVersionKind == ref.GroupVersionKind {
			return may(rightOf(kind, ref))
		}
	}
	return false
}

// cluster explains a Cluster.
func (a *Answerer) cluster(ctx context.Context, key client.ObjectKey, _ func(explain.Right) bool) ([]explain.Step, error) {
	cluster := &clusterv1alpha1.Cluster{}
	if err := a.Reader.Get(ctx, key, cluster, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	works, err := hubclient.ListWorks(ctx, a.Reader, client.InNamespace(workv1alpha1.ExecutionNamespace(key.Name)))
	if err != nil {
		return nil, err
	}
	return explain.Cluster(cluster, works), nil
}

// wholeWork explains a Work.
func (a *Answerer) wholeWork(ctx context.Context, key client.ObjectKey, _ func(explain.Right) bool) ([]explain.Step, error) {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(key.Namespace)
	work, err := hubclient.GetWork(ctx, a.Reader, key)
	if work == nil || err != nil {
		return nil, err
	}
	return explain.Work(work, cluster), nil
}

func identityOf(ref hubstore.Ref) fleetv1alpha1.ObjectIdentity {
	return fleetv1alpha1.ObjectIdentity{
		APIVersion: ref.GroupVersionKind.GroupVersion().String(), Kind: ref.GroupVersionKind.Kind, Namespace: ref.Namespace, Name: ref.Name,
	}
}

package answers

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/knowledge/ownership"
	"github.com/flagship-k8s/flagship/internal/knowledge/policy"
	"github.com/flagship-k8s/flagship/internal/pipeline/propagate/bindings"
	"github.com/flagship-k8s/flagship/internal/pipeline/render/compose"
)

// maxClusters is how many clusters one answer has.
const maxClusters = 100

// Templates is the store of templates as this package uses it; *hubstore.Store is one.
type Templates interface {
	Kinds() []hubstore.Kind
	HasStatus(schema.GroupVersionKind) bool
	OtherVersions(schema.GroupVersionKind) []string
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Stays(hubstore.Ref, metav1.Object) string
	List(schema.GroupVersionKind, string, labels.Selector) []*metav1.PartialObjectMetadata
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
}

// Scheduler explains clusters; *schedule.Controller is one.
type Scheduler interface {
	Explain(ctx context.Context, binding workv1alpha2.Binding, only string) ([]explain.Candidate, time.Time, error)
}

// Answerer answers Explanations and DriftReports. All fields are required.
type Answerer struct {
	// Reader reads from the cache.
	Reader    client.Reader
	Templates Templates
	Scheduler Scheduler
	Composer  compose.Composer
	// Members is a client of a member for an author, with no other rights than the author has through the proxy of the cluster. It is
	// a function since each author has a client.
	Members func(cluster string, author user.Info) (dynamic.Interface, error)
	// Kinds are those that a member serves, read in the same way.
	Kinds        func(ctx context.Context, cluster string, author user.Info) ([]hubstore.Kind, error)
	ControlPlane ownership.ControlPlane
	// Drift has the episodes of this process.
	Drift *drift.Episodes
	// AgentDrift reads the episodes of the agent of a cluster in Pull mode. It is a function since the tunnels are the API server's.
	AgentDrift func(context.Context, *clusterv1alpha1.Cluster) ([]fleetv1alpha1.DriftedObject, error)
	// PeerDrift reads the episodes of a cluster in Push mode from the server that serves it, and nothing if that is this one. It is a function
	// because which server that is belongs to the host. Nil: this process serves all of them, if it runs the control loops.
	PeerDrift func(context.Context, *clusterv1alpha1.Cluster) ([]fleetv1alpha1.DriftedObject, error)
	// Elected is closed once this process runs the control loops: the scheduler of any other has seen no events.
	Elected <-chan struct{}
}

// Explain answers one question of an author, who may get what may returns. The author may get the object of the question.
func (a *Answerer) Explain(ctx context.Context, spec fleetv1alpha1.ExplanationSpec, author user.Info, may func(explain.Right) bool) (fleetv1alpha1.ExplanationStatus, error) {
	if s := subjectOf(&spec); s != nil {
		return a.subject(ctx, s, &spec, may)
	}
	if spec.Name == "" || (spec.Kind == "") == (spec.Resource == "") {
		return fleetv1alpha1.ExplanationStatus{}, apierrors.NewBadRequest("spec needs a name, and either a kind or a resource")
	}
	if spec.Member != "" {
		return a.inMember(ctx, &spec, author, may)
	}
	kinds, err := a.kindsOf(spec.Group, spec.Kind, spec.Resource)
	if err != nil {
		return fleetv1alpha1.ExplanationStatus{}, err
	}
	for _, kind := range kinds {
		ref := refOf(kind, spec.Namespace, spec.Name)
		if right := rightOf(kind, ref); !may(right) {
			return fleetv1alpha1.ExplanationStatus{}, forbidden(right.Group, right.Resource, spec.Name)
		}
		template, err := a.Templates.Get(ctx, ref)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fleetv1alpha1.ExplanationStatus{}, err
		}
		return a.template(ctx, ref, template, &spec, author, may)
	}
	return a.absent(kinds[0], &spec, may), nil
}

// forbidden is the error about an object that the author may not get, whether it exists or not.
func forbidden(group, resource, name string) error {
	of := schema.GroupResource{Group: group, Resource: resource}
	return apierrors.NewForbidden(of, name, fmt.Errorf("an Explanation has only what its author may get: this needs get on %s", of))
}

// template explains a template.
func (a *Answerer) template(ctx context.Context, ref hubstore.Ref, template *unstructured.Unstructured, spec *fleetv1alpha1.ExplanationSpec, author user.Info, may func(explain.Right) bool) (fleetv1alpha1.ExplanationStatus, error) {
	status := fleetv1alpha1.ExplanationStatus{Object: explain.IdentityOf(template)}
	facts := explain.Facts{Template: template, Stays: a.Templates.Stays(ref, template), StatusUnwritable: !a.Templates.HasStatus(ref.GroupVersionKind)}
	if err := a.policies(ctx, ref, &facts); err != nil {
		return status, err
	}
	var err error
	if facts.Binding, err = a.binding(ctx, ref); err != nil {
		return status, err
	}
	if facts.Binding != nil {
		if err := a.clusters(ctx, spec.Cluster, &facts, &status); err != nil {
			return status, err
		}
	}
	steps := append(explain.Template(facts), a.failing(ctx, ref, &facts, author, may)...)
	if spec.Cluster != "" {
		steps = explain.OnlyCluster(steps, facts, spec.Cluster, may)
	}
	status.Steps = explain.Visible(steps, may)
	if !may(explain.AllClusters) {
		status.OmittedClusters = 0 // the number of clusters
	}
	status.Summary = explain.Summary(status.Steps)
	return status, nil
}

// policies decides which policy the template belongs to, as propagate does.
func (a *Answerer) policies(ctx context.Context, ref hubstore.Ref, facts *explain.Facts) error {
	reader := hubclient.Policies{Reader: a.Reader}
	subject := policy.SubjectOf(ref.GroupVersionKind, facts.Template, a.Templates.OtherVersions(ref.GroupVersionKind))
	candidates, err := reader.OfKind(ctx, subject)
	if err != nil {
		return err
	}
	holder, err := reader.Holder(ctx, policy.ClaimOn(facts.Template))
	if err != nil {
		return err
	}
	facts.Policies, facts.Created = policy.Judge(subject, holder, candidates), map[policy.Key]metav1.Time{}
	for _, candidate := range candidates {
		facts.Created[policy.KeyOf(candidate)] = candidate.GetCreationTimestamp()
	}
	return nil
}

// binding reads the binding of a template, nil if there is none.
func (a *Answerer) binding(ctx context.Context, ref hubstore.Ref) (workv1alpha2.Binding, error) {
	for _, key := range []client.ObjectKey{bindings.Key(ref), bindings.AlternativeKey(ref)} {
		binding := workv1alpha2.EmptyBinding(ref.Namespace)
		err := a.Reader.Get(ctx, key, binding.(client.Object))
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("reading binding %s: %w", key, err)
		}
		if of := hubstore.TemplateOf(binding.BindingSpec()); of.GroupVersionKind.GroupKind() == ref.GroupVersionKind.GroupKind() && of.Name == ref.Name {
			return binding, nil
		}
	}
	return nil, nil
}

// clusters finds what is known of each cluster.
func (a *Answerer) clusters(ctx context.Context, only string, facts *explain.Facts, status *fleetv1alpha1.ExplanationStatus) error {
	if err := a.schedule(ctx, only, facts); err != nil {
		return err
	}
	explain.Sort(facts.Candidates)
	if omitted := len(facts.Candidates) - maxClusters; omitted > 0 {
		facts.Candidates, status.OmittedClusters = facts.Candidates[:maxClusters], int32(omitted)
	}
	return a.targets(ctx, only, facts)
}

// targets finds what there is for each target.
func (a *Answerer) targets(ctx context.Context, only string, facts *explain.Facts) error {
	targets := compose.TargetsOf(facts.Binding.BindingSpec())
	overrides, err := hubclient.Overrides(ctx, a.Reader, facts.Template.GetNamespace())
	if err != nil {
		return err
	}
	completions := compose.ShareCompletions(facts.Template, facts.Binding.BindingSpec())
	for _, target := range targets {
		if only != "" && target.Name != only {
			continue
		}
		if len(facts.Targets) == maxClusters {
			break // schedule.Explain has more clusters than targets, so that these are counted as omitted
		}
		found, err := a.target(ctx, facts, compose.Request{
			Template: facts.Template, Binding: facts.Binding, Target: target, Targets: len(targets), Completions: completions, Policies: overrides,
		})
		if err != nil {
			return err
		}
		facts.Targets = append(facts.Targets, found)
	}
	return nil
}

// schedule finds what the scheduler decides about each cluster, if the binding is scheduled at all.
func (a *Answerer) schedule(ctx context.Context, only string, facts *explain.Facts) error {
	if facts.Policies.Winner == nil {
		return nil
	}
	select {
	case <-a.Elected:
	default:
		facts.Unscheduled = "clusters are explained by the server that runs the control loops, and this is another one"
		return nil
	}
	var err error
	facts.Candidates, facts.NextTry, err = a.Scheduler.Explain(ctx, facts.Binding, only)
	return err
}

// target finds what there is for one target.
func (a *Answerer) target(ctx context.Context, facts *explain.Facts, request compose.Request) (explain.Target, error) {
	found := explain.Target{Name: request.Target.Name}
	if err := a.work(ctx, facts.Binding, &found); err != nil {
		return found, err
	}
	cluster := &clusterv1alpha1.Cluster{}
	err := a.Reader.Get(ctx, client.ObjectKey{Name: found.Name}, cluster, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return found, nil
	case err != nil:
		return found, fmt.Errorf("reading cluster %s: %w", found.Name, err)
	}
	found.Cluster, request.Cluster = cluster, cluster
	if len(request.Policies) > 0 {
		request.Existing = found.Work
		request.Target.Replicas = compose.KeptReplicas(request)
		result, err := a.Composer.Overrides(ctx, request)
		if ctx.Err() != nil {
			return found, err
		}
		if found.Overrides = result.Verdicts; err != nil {
			found.OverrideError = err.Error()
		}
	}
	return found, nil
}

// work finds the Work of a target.
func (a *Answerer) work(ctx context.Context, binding workv1alpha2.Binding, found *explain.Target) error {
	spec := binding.BindingSpec()
	found.WorkName = compose.WorkName(spec)
	for _, name := range []string{compose.WorkName(spec), compose.AlternativeWorkName(spec)} {
		work, err := hubclient.GetWork(ctx, a.Reader, client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(found.Name), Name: name})
		if err != nil {
			return err
		}
		if work != nil && compose.Belongs(work, binding) {
			found.Work, found.WorkName = work, name
			return nil
		}
	}
	return nil
}

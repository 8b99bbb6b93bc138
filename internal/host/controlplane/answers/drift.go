package answers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	compare "github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

const (
	// maxDrifted is how many objects one answer has.
	maxDrifted = 500
	// maxReadable is how many objects are read in members for one answer, to find out whether its author may see their values.
	maxReadable = 20
	// maxAgents is of how many agents episodes are read at the same time.
	maxAgents = 16
)

// valuesHidden is the reason in an answer without values.
const valuesHidden = "values need get on the object in the member through clusters/proxy, or get on its Work"

// valuesUnknown is the reason if it is not known whether the author may read them.
const valuesUnknown = "values are not shown: the member does not answer whether you may get the object"

// DriftReport answers one question of an author, who may get what may returns.
func (a *Answerer) DriftReport(ctx context.Context, spec fleetv1alpha1.DriftReportSpec, author user.Info, may func(explain.Right) bool) (fleetv1alpha1.DriftReportStatus, error) {
	var status fleetv1alpha1.DriftReportStatus
	select {
	case <-a.Elected:
	default:
		if a.PeerDrift != nil {
			break
		}
		return status, apierrors.NewServiceUnavailable("drift is known to the server that runs the control loops, and this is another one")
	}
	selected, err := a.selection(spec, may)
	if err != nil {
		return status, err
	}
	records, unanswered, err := a.records(ctx, spec.Cluster, may)
	if err != nil {
		return status, err
	}
	var visible []drifted
	for i := range records {
		found, err := a.visible(ctx, &records[i], may)
		if err != nil {
			return status, err
		}
		if found != nil && selected(found.template) {
			visible = append(visible, *found)
		}
	}
	slices.SortStableFunc(visible, func(x, y drifted) int {
		if xs, ys := drift.Stands(x.DriftedObject), drift.Stands(y.DriftedObject); xs != ys {
			return map[bool]int{true: -1, false: 1}[xs]
		}
		return y.Last.Compare(x.Last.Time)
	})
	if omitted := len(visible) - maxDrifted; omitted > 0 {
		visible, status.OmittedObjects = visible[:maxDrifted], int32(omitted)
	}
	if spec.Name != "" {
		if err := a.findOverridden(ctx, visible); err != nil {
			return status, err
		}
	}
	a.hideValues(ctx, visible, author, may)
	for _, o := range visible {
		status.Objects = append(status.Objects, *o.DriftedObject)
	}
	status.Unanswered = unanswered
	return status, nil
}

// findOverridden marks the fields whose wanted value is not that of the template, of objects of one template. The values are compared here
// since the record has none of Secrets, and shortens others.
func (a *Answerer) findOverridden(ctx context.Context, objects []drifted) error {
	if len(objects) == 0 {
		return nil
	}
	template, err := a.Templates.Get(ctx, objects[0].template)
	if apierrors.IsNotFound(err) {
		return nil // since a moment ago
	}
	if err != nil {
		return err
	}
	for _, o := range objects {
		paths := make([]string, 0, len(o.Fields))
		for i := range o.Fields {
			o.Fields[i].Overridden = false // an agent does not decide it
			paths = append(paths, o.Fields[i].Path)
		}
		for _, m := range ssa.ManifestsOf(o.manifests) {
			if m.Err != nil || m.Object.GetKind() != o.Object.Kind || m.Object.GetName() != o.Object.Name {
				continue
			}
			wanted, has := compare.ValuesAt(m.Object, paths), compare.ValuesAt(template, paths)
			for i := range o.Fields {
				path := o.Fields[i].Path
				o.Fields[i].Overridden = !equality.Semantic.DeepEqual(wanted[path], has[path])
			}
		}
	}
	return nil
}

// drifted is one object of an answer.
type drifted struct {
	*fleetv1alpha1.DriftedObject
	// manifests is its Work. It is shared with the cache.
	manifests *workv1alpha1.Work
	// template is what the object in the member is made from; the object itself, if its Work is written by a user.
	template hubstore.Ref
	kind     hubstore.Kind
	work     explain.Right
}

// selection returns which templates a question is about.
func (a *Answerer) selection(spec fleetv1alpha1.DriftReportSpec, may func(explain.Right) bool) (func(hubstore.Ref) bool, error) {
	switch {
	case spec.Kind != "" && spec.Resource != "":
		return nil, apierrors.NewBadRequest("spec has a kind and a resource: either is enough")
	case spec.Kind+spec.Resource+spec.Name == "":
		return func(ref hubstore.Ref) bool { return spec.Namespace == "" || ref.Namespace == spec.Namespace }, nil
	case spec.Kind+spec.Resource == "":
		return nil, apierrors.NewBadRequest("spec has a name: it needs a kind or a resource, too")
	}
	kinds, err := a.kindsOf(spec.Group, spec.Kind, spec.Resource)
	if err != nil {
		return nil, err
	}
	if spec.Name == "" {
		return func(ref hubstore.Ref) bool {
			return (spec.Namespace == "" || ref.Namespace == spec.Namespace) &&
				slices.ContainsFunc(kinds, func(k hubstore.Kind) bool { return k.GroupVersionKind.GroupKind() == ref.GroupVersionKind.GroupKind() })
		}, nil
	}
	for _, kind := range kinds {
		ref := refOf(kind, spec.Namespace, spec.Name)
		right := rightOf(kind, ref)
		if !may(right) {
			return nil, forbidden(right.Group, right.Resource, spec.Name)
		}
		if _, exists := a.Templates.Meta(ref); exists {
			return func(r hubstore.Ref) bool {
				return r.GroupVersionKind.GroupKind() == ref.GroupVersionKind.GroupKind() && r.Namespace == ref.Namespace && r.Name == ref.Name
			}, nil
		}
	}
	of := kinds[0].Resource.GroupResource()
	return nil, apierrors.NewNotFound(of, spec.Name)
}

// visible returns what an answer may have of an object, nil for nothing. The author may get the template, and the binding, which names
// the clusters. Without a binding the Work is what a user wrote, and is what the author has to be allowed to get.
func (a *Answerer) visible(ctx context.Context, o *fleetv1alpha1.DriftedObject, may func(explain.Right) bool) (*drifted, error) {
	key := client.ObjectKey{Namespace: workv1alpha1.ExecutionNamespace(o.Cluster), Name: o.Work}
	work, err := hubclient.GetWork(ctx, a.Reader, key)
	if work == nil || err != nil {
		return nil, err
	}
	found := &drifted{DriftedObject: o, manifests: work, work: explain.Right{Group: workv1alpha1.GroupName, Resource: workv1alpha1.ResourcePluralWork, Namespace: key.Namespace, Name: key.Name}}
	o.Mode = cmp.Or(work.Annotations[policyv1alpha1.DriftAnnotation], policyv1alpha1.DriftRepair)
	found.template = hubstore.Ref{
		GroupVersionKind: schema.FromAPIVersionAndKind(o.Object.APIVersion, o.Object.Kind), Namespace: o.Object.Namespace, Name: o.Object.Name,
	}
	bound := workv1alpha2.BoundTo(work)
	if bound != "" {
		namespace, name, _ := strings.Cut(bound, "/")
		binding := workv1alpha2.EmptyBinding(namespace)
		err := a.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, binding.(client.Object), client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading binding %s: %w", bound, err)
		}
		found.template = hubstore.TemplateOf(binding.BindingSpec())
		if !may(explain.BindingRight(binding)) {
			return nil, nil
		}
	} else if !may(found.work) {
		return nil, nil
	}
	kinds := a.Templates.Kinds()
	at := slices.IndexFunc(kinds, func(k hubstore.Kind) bool {
		return k.GroupVersionKind.GroupKind() == found.template.GroupVersionKind.GroupKind()
	})
	switch {
	case at >= 0:
		found.kind = kinds[at]
		if bound != "" && !may(rightOf(found.kind, found.template)) {
			return nil, nil
		}
	case bound != "": // its right is not known
		return nil, nil
	}
	return found, nil
}

// hideValues removes the values that the author may not read: those of objects of which the author may get neither the Work nor, through
// the proxy of the cluster, the object in the member.
func (a *Answerer) hideValues(ctx context.Context, objects []drifted, author user.Info, may func(explain.Right) bool) {
	var group errgroup.Group
	read := 0
	for _, o := range objects {
		if may(o.work) {
			continue
		}
		hide := func(reason string) {
			o.ValuesHidden = reason
			for i := range o.Fields {
				o.Fields[i].Wanted, o.Fields[i].Found, o.Fields[i].Overridden = "", "", false
			}
		}
		if read == maxReadable || o.kind.Resource.Resource == "" {
			hide(valuesHidden)
			continue
		}
		read++
		group.Go(func() error {
			reason := ""
			if err := controlloop.CatchPanic(func() error {
				reason = a.unreadable(ctx, o, author)
				return nil
			}); err != nil {
				reason = valuesUnknown
			}
			if reason != "" {
				hide(reason)
			}
			return nil
		})
	}
	_ = group.Wait() // each object is decided
}

// unreadable is why values of an object are not shown to an author, empty if he may get it in its member, through the proxy of the cluster.
func (a *Answerer) unreadable(ctx context.Context, o drifted, author user.Info) string {
	ctx, cancel := context.WithTimeout(ctx, memberPatience)
	defer cancel()
	member, err := a.Members(o.Cluster, author)
	if err == nil {
		resource := o.kind.Resource
		resource.Version = cmp.Or(schema.FromAPIVersionAndKind(o.Object.APIVersion, "").Version, resource.Version)
		_, err = member.Resource(resource).Namespace(o.Object.Namespace).Get(ctx, o.Object.Name, metav1.GetOptions{})
	}
	switch {
	case err == nil:
		return ""
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err):
		return valuesHidden
	default:
		return valuesUnknown
	}
}

// records returns what the records of this process and of agents have of a cluster, "" for all, and the clusters of which nothing is known,
// of those that the author may get.
func (a *Answerer) records(ctx context.Context, only string, may func(explain.Right) bool) ([]fleetv1alpha1.DriftedObject, []fleetv1alpha1.UnansweredCluster, error) {
	var clusters clusterv1alpha1.ClusterList
	if err := a.Reader.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing clusters: %w", err)
	}
	records := a.Drift.List(only)
	found := make([][]fleetv1alpha1.DriftedObject, len(clusters.Items))
	failures := make([]error, len(clusters.Items))
	var group errgroup.Group
	group.SetLimit(maxAgents)
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		pulls := cluster.Spec.SyncMode == clusterv1alpha1.Pull
		if !pulls && a.PeerDrift == nil || only != "" && cluster.Name != only {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, memberPatience)
			defer cancel()
			read := a.AgentDrift
			if !pulls {
				read = a.PeerDrift
			}
			failures[i] = controlloop.CatchPanic(func() (err error) {
				found[i], err = read(ctx, cluster)
				return err
			})
			return nil
		})
	}
	_ = group.Wait() // each cluster has its result
	var unanswered []fleetv1alpha1.UnansweredCluster
	for i := range clusters.Items {
		records = append(records, found[i]...)
		name := clusters.Items[i].Name
		if failures[i] != nil && may(explain.Right{Group: clusterv1alpha1.GroupName, Resource: clusterv1alpha1.ResourcePluralCluster, Name: name}) {
			unanswered = append(unanswered, fleetv1alpha1.UnansweredCluster{Name: name, Message: failures[i].Error()})
		}
	}
	return records, unanswered, nil
}

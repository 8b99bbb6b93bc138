package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/clusters"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/cli/taken"
)

// orphans makes templates of objects of a member that this control plane manages and has no Work for. Whether an object is one is what its
// labels say, which the owner of the member writes: what is created is what a person has read.
type orphans struct {
	*options
	member fleet.Member
	hub    *fleet.Access
	live   dynamic.Interface
	// named is the one object that is meant; nil for all.
	named *taken.Request
	// mappings has the kinds that were found, by resource, and deleted the templates that the control plane has a record of, by question.
	mappings map[string]*meta.RESTMapping
	deleted  map[fleetv1alpha1.UndeletionSpec]map[types.UID]fleetv1alpha1.ObjectIdentity
}

// Outcome is what became of one orphan.
type Outcome struct {
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Created is true if the template is on the control plane; with --dry-run, if it would be.
	Created bool `json:"created"`
	// Reason is why it is not.
	Reason string `json:"reason,omitempty"`
	// Objects are what would be created, with --dry-run.
	Objects []*unstructured.Unstructured `json:"objects,omitempty"`

	promotion *promotion
}

// command promotes them and prints what became of each.
func (o *orphans) command(ctx context.Context, s cli.Streams, args []string) (err error) {
	o.mappings, o.deleted = map[string]*meta.RESTMapping{}, map[fleetv1alpha1.UndeletionSpec]map[types.UID]fleetv1alpha1.ObjectIdentity{}
	if o.live, err = dynamic.NewForConfig(o.member.Access.Config); err != nil {
		return fmt.Errorf("connecting to cluster %s: %w", o.member.Name, err)
	}
	if len(args) > 0 {
		kind, name := objectOf(args)
		if o.named, err = taken.Find(o.hub.Config, kind, o.member.Access.Namespace, name); err != nil {
			return err
		}
	}
	outcomes, more, err := o.list(ctx)
	if err != nil {
		return err
	}
	digest, err := digestOf(o.member.Name, outcomes)
	if err != nil {
		return err
	}
	if !o.dryRun {
		if err := taken.Expected(o.expect, digest); err != nil {
			return err
		}
		o.create(ctx, s, outcomes)
	}
	if err := o.print(s, outcomes); err != nil {
		return err
	}
	if o.dryRun {
		sayDigest(s, digest)
	}
	failed := 0
	for _, outcome := range outcomes {
		if !outcome.Created {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d orphans of cluster %s are not promoted\nsee the reasons above", failed, len(outcomes), o.member.Name)
	case more > 0:
		return fmt.Errorf("cluster %s has %d more orphans than were listed at once\nrun the command again", o.member.Name, more)
	}
	return nil
}

// list reads the orphans that are meant, and has the control plane check what would be created of each. More is how many were not listed.
func (o *orphans) list(ctx context.Context) (outcomes []Outcome, more int, err error) {
	reports, err := clusters.FetchReports(ctx, o.hub.Config, restore.StatusPath, []string{o.member.Name})
	if err != nil {
		return nil, 0, err
	}
	for _, report := range reports {
		if report.Error != "" {
			return nil, 0, fmt.Errorf("cluster %s: %s", report.Cluster, report.Error)
		}
		more += report.Counts[restore.Orphan]
		for _, found := range report.Findings {
			if found.Class != restore.Orphan {
				continue
			}
			more--
			if !o.meant(found) {
				continue
			}
			outcome := Outcome{Resource: found.Resource, Namespace: found.Namespace, Name: found.Name}
			p, err := o.promotion(ctx, found)
			if err == nil {
				err = p.try(ctx, o.hub)
			}
			if err != nil {
				outcome.Reason = err.Error()
			} else {
				outcome.Created, outcome.promotion = true, p
			}
			outcomes = append(outcomes, outcome)
		}
	}
	if o.named != nil && len(outcomes) == 0 {
		return nil, 0, fmt.Errorf("%s %s is no orphan of cluster %s\nsee 'flagship restore status'", o.named.Mapping.GroupVersionKind.Kind, o.named.Name, o.member.Name)
	}
	return outcomes, more, nil
}

// meant returns whether a finding is one of those that the command line means.
func (o *orphans) meant(found restore.Finding) bool {
	if o.named != nil {
		return found.Resource == o.named.Mapping.Resource.GroupResource().String() && found.Namespace == o.named.Namespace && found.Name == o.named.Name
	}
	return o.Namespace == "" || found.Namespace == o.Namespace
}

// digestOf is that of everything that would be created.
func digestOf(cluster string, outcomes []Outcome) (string, error) {
	var all []any
	for _, outcome := range outcomes {
		if outcome.promotion == nil {
			continue
		}
		digest, err := outcome.promotion.digest()
		if err != nil {
			return "", err
		}
		all = append(all, digest)
	}
	return taken.Digest(cluster, "", all...)
}

// promotion is what would be created for one orphan. It has no keys of the control plane that lost its template.
func (o *orphans) promotion(ctx context.Context, found restore.Finding) (*promotion, error) {
	mapping := o.mappings[found.Resource]
	if mapping == nil {
		var err error
		if mapping, err = cli.Mapping(o.hub.Config, found.Resource); err != nil {
			return nil, err
		}
		o.mappings[found.Resource] = mapping
	}
	request, err := taken.New(mapping, found.Namespace, found.Name)
	if err != nil {
		return nil, err
	}
	request.UID = found.UID
	obj, err := get(ctx, o.live, request)
	if err != nil {
		return nil, err
	}
	p, err := orphanPromotion(request, obj, o.member.Name, o.withPolicy)
	if err != nil {
		return nil, err
	}
	if p.acts != "" && !o.acting {
		return nil, fmt.Errorf("it acts on the control plane: %s\nname it, with --acts-on-control-plane", p.acts)
	}
	if !o.unrecorded {
		had, err := o.had(ctx, request, types.UID(obj.GetAnnotations()[workv1alpha1.TemplateUIDAnnotation]))
		if err == nil && !had {
			err = errors.New("the control plane has no record that it had a template of this kind, name and uid: it was made after the backup, was deleted long ago, or the owner of the cluster made it\nlook at it, and add --unrecorded --with-policy")
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// had returns whether this control plane deleted a template of this kind, name and uid. It has the record of that itself: no member writes it.
func (o *orphans) had(ctx context.Context, request *taken.Request, uid types.UID) (bool, error) {
	spec := fleetv1alpha1.UndeletionSpec{Namespace: request.Namespace}
	if request.Namespace == "" { // without a name it would be all of all namespaces
		spec.Group, spec.Resource, spec.Name = request.Mapping.Resource.Group, request.Mapping.Resource.Resource, request.Name
	}
	known, read := o.deleted[spec]
	if !read {
		known = map[types.UID]fleetv1alpha1.ObjectIdentity{}
		question := &fleetv1alpha1.Undeletion{Spec: spec}
		question.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind(fleetv1alpha1.KindUndeletion))
		for more := true; more; more = question.Spec.Continue != "" {
			question.Status = fleetv1alpha1.UndeletionStatus{}
			if err := cli.Ask(ctx, o.hub.Config, fleetv1alpha1.ResourcePluralUndeletion, question); err != nil {
				return false, fmt.Errorf("reading what was deleted on the control plane: %w", err)
			}
			for _, d := range question.Status.Objects {
				known[d.UID] = d.Object
			}
			question.Spec.Continue = question.Status.Continue
		}
		o.deleted[spec] = known
	}
	return wasTemplate(request, known[uid]), nil
}

// wasTemplate returns whether a deleted template is of the kind and name of a request. Its version may be another one.
func wasTemplate(request *taken.Request, deleted fleetv1alpha1.ObjectIdentity) bool {
	kind := schema.FromAPIVersionAndKind(deleted.APIVersion, deleted.Kind).GroupKind()
	return kind == request.Mapping.GroupVersionKind.GroupKind() && deleted.Namespace == request.Namespace && deleted.Name == request.Name
}

// create creates what is promoted, and notes what fails.
func (o *orphans) create(ctx context.Context, s cli.Streams, outcomes []Outcome) {
	for i := range outcomes {
		p := outcomes[i].promotion
		if p == nil {
			continue
		}
		var err error
		if p.acts != "" {
			err = p.print(s)
		}
		if err == nil {
			err = p.create(ctx, o.hub)
		}
		if err != nil {
			outcomes[i].Created, outcomes[i].Reason = false, err.Error()
		}
	}
}

// orphanPromotion returns what is created for an orphan.
func orphanPromotion(request *taken.Request, obj *unstructured.Unstructured, cluster string, withPolicy bool) (*promotion, error) {
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return nil, errors.New("it is being deleted")
	case obj.GetAnnotations()[workv1alpha1.TemplateUIDAnnotation] == "" || obj.GetLabels()[workv1alpha1.DerivedLabel] != "":
		return nil, errors.New("the control plane made it itself, without a template")
	}
	plain := obj.DeepCopy()
	plain.SetLabels(withoutOwnership(obj.GetLabels()))
	plain.SetAnnotations(withoutOwnership(obj.GetAnnotations()))
	return promotionOf(request, plain, cluster, withPolicy)
}

func withoutOwnership(values map[string]string) map[string]string {
	kept := map[string]string{}
	for key, value := range values {
		if !workv1alpha1.IsOwnershipKey(key) {
			kept[key] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// print prints a table, and before it, in a dry run, what would be created.
func (o *orphans) print(s cli.Streams, outcomes []Outcome) error {
	done := "created"
	if o.dryRun {
		done = "would be created"
	}
	rows := make([][]string, 0, len(outcomes))
	for i, outcome := range outcomes {
		result := done
		switch {
		case !outcome.Created:
			result = strings.ReplaceAll(outcome.Reason, "\n", "; ")
		case o.dryRun && o.out.IsTable():
			if err := outcome.promotion.print(s); err != nil {
				return err
			}
		case o.dryRun:
			outcomes[i].Objects = outcome.promotion.objects()
		}
		rows = append(rows, []string{outcome.Resource, cli.OrNone(outcome.Namespace), outcome.Name, result})
	}
	return o.out.Print(s, outcomes, "RESOURCE NAMESPACE NAME TEMPLATE", rows)
}

package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/clusters"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// orphans makes templates of the objects of a member that this control plane manages and has no Work for.
type orphans struct {
	member fleet.Member
	hub    *fleet.Access
	// namespace limits them to one; empty takes all.
	namespace          string
	withPolicy, dryRun bool
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
}

// command promotes them and prints what became of each.
func (o *orphans) command(ctx context.Context, s cli.Streams, f *fleet.Fleet, out *cli.Output) (err error) {
	if o.hub, err = access(f, o.member); err != nil {
		return err
	}
	outcomes, err := o.run(ctx)
	if len(outcomes) == 0 && err != nil {
		return err
	}
	return errors.Join(o.print(s, out, outcomes), err)
}

// run returns what became of each, and an error if one could not be promoted.
func (o *orphans) run(ctx context.Context) ([]Outcome, error) {
	reports, err := clusters.FetchReports(ctx, o.hub.Config, restore.StatusPath, []string{o.member.Name})
	if err != nil {
		return nil, err
	}
	live, err := dynamic.NewForConfig(o.member.Access.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %s: %w", o.member.Name, err)
	}
	var outcomes []Outcome
	failed, listed := 0, 0
	for _, report := range reports {
		if report.Error != "" {
			return nil, fmt.Errorf("cluster %s: %s", report.Cluster, report.Error)
		}
		listed += report.Counts[restore.Orphan]
		for _, found := range report.Findings {
			if found.Class != restore.Orphan {
				continue
			}
			listed--
			if o.namespace != "" && found.Namespace != o.namespace {
				continue
			}
			outcome := Outcome{Resource: found.Resource, Namespace: found.Namespace, Name: found.Name, Created: true}
			if err := o.promote(ctx, live, found); err != nil {
				outcome.Created, outcome.Reason = false, err.Error()
				failed++
			}
			outcomes = append(outcomes, outcome)
		}
	}
	switch {
	case failed > 0:
		err = fmt.Errorf("%d of %d orphans of cluster %s are not promoted\nsee the reasons above", failed, len(outcomes), o.member.Name)
	case listed > 0:
		err = fmt.Errorf("cluster %s has %d more orphans than were listed at once\nrun the command again", o.member.Name, listed)
	}
	return outcomes, err
}

// promote makes a template of one orphan, and with withPolicy a policy for it.
func (o *orphans) promote(ctx context.Context, live dynamic.Interface, found restore.Finding) error {
	resource, err := o.member.Access.Mapper.ResourceFor(schema.ParseGroupResource(found.Resource).WithVersion(""))
	if err != nil {
		return err
	}
	var objects dynamic.ResourceInterface = live.Resource(resource)
	if found.Namespace != "" {
		objects = live.Resource(resource).Namespace(found.Namespace)
	}
	obj, err := objects.Get(ctx, found.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	p, err := orphanPromotion(obj, o.member.Name, o.withPolicy)
	if err != nil {
		return err
	}
	return p.create(ctx, o.hub, o.dryRun)
}

// orphanPromotion returns what is created for an orphan. It has no keys of the control plane that lost its template.
func orphanPromotion(obj *unstructured.Unstructured, cluster string, withPolicy bool) (*promotion, error) {
	switch {
	case obj.GetDeletionTimestamp() != nil:
		return nil, errors.New("it is being deleted")
	case obj.GetAnnotations()[workv1alpha1.TemplateUIDAnnotation] == "" || obj.GetLabels()[workv1alpha1.DerivedLabel] != "":
		return nil, errors.New("the control plane made it itself, without a template")
	}
	plain := obj.DeepCopy()
	plain.SetLabels(withoutOwnership(obj.GetLabels()))
	plain.SetAnnotations(withoutOwnership(obj.GetAnnotations()))
	template, err := templateOf(plain)
	if err != nil || !withPolicy {
		return &promotion{template: template}, err
	}
	policy, err := policyFor(template, cluster)
	return &promotion{template, policy}, err
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

// print prints a table.
func (o *orphans) print(s cli.Streams, out *cli.Output, outcomes []Outcome) error {
	done := "created"
	if o.dryRun {
		done = "would be created"
	}
	rows := make([][]string, 0, len(outcomes))
	for _, outcome := range outcomes {
		result := done
		if !outcome.Created {
			result = strings.ReplaceAll(outcome.Reason, "\n", "; ")
		}
		rows = append(rows, []string{outcome.Resource, cli.OrNone(outcome.Namespace), outcome.Name, result})
	}
	return out.Print(s, outcomes, "RESOURCE NAMESPACE NAME TEMPLATE", rows)
}

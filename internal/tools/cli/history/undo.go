package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// fieldManager is the name under which undo writes.
const fieldManager = "flagship-undo"

// What is undone.
const (
	whatTemplate, whatPolicy, whatBoth = "template", "policy", "both"
)

type undoOptions struct {
	object
	to     int64
	dryRun bool
	what   string
}

func newUndoCommand(s cli.Streams) *cobra.Command {
	var o undoOptions
	c := &cobra.Command{
		Use:   "undo TYPE/NAME",
		Short: "Bring back an earlier revision of an object, of its policy, or of both",
		Long: `Writes the template, its propagation policy and its override policies as they were in an earlier revision. Every write is an
ordinary request with your rights. An object that another user changes at the same time is a conflict, and is not overwritten. Nothing is deleted: a policy that
came later stays.`,
		Example: `  flagship undo deployment/nginx -n shop --dry-run
  flagship undo deployment/nginx -n shop            # to the revision before the current one
  flagship undo deployment/nginx --to 3 --what template`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.parse("undo", args); err != nil {
				return err
			}
			if !slices.Contains([]string{whatTemplate, whatPolicy, whatBoth}, o.what) {
				return cli.UsageErrorf("--what %q is none of %s, %s, %s", o.what, whatTemplate, whatPolicy, whatBoth)
			}
			return o.run(cmd.Context(), s)
		},
	}
	o.flags(c)
	c.Flags().Int64Var(&o.to, "to", 0, "revision to bring back (default: the one before the current one)")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "print what would change, and have the control plane check it without storing it")
	c.Flags().StringVar(&o.what, "what", whatBoth, "what is brought back: template, policy (with the override policies) or both")
	return c
}

func (o *undoOptions) run(ctx context.Context, s cli.Streams) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	to := o.to
	if to == 0 {
		answer, _, err := o.ask(ctx, cfg)
		if err != nil {
			return err
		}
		if to = previous(answer.Status.Revisions); to == 0 {
			return fmt.Errorf("no earlier revision of %s is recorded\na change is recorded some seconds after it was made: flagship history %s/%s -n %s", o.name, o.kind, o.name, o.namespace)
		}
	}
	answer, resource, err := o.ask(ctx, cfg, to, 0)
	if err != nil {
		return err
	}
	target, err := content(answer, to)
	if err != nil {
		return err
	}
	w, err := newWriter(cfg, s, o.dryRun)
	if err != nil {
		return err
	}
	if err := o.policies(ctx, w, target); err != nil {
		return err
	}
	if o.what != whatPolicy {
		if err := w.bringBack(ctx, resource, target.template, false); err != nil {
			return err
		}
	}
	o.report(s, w, answer, target)
	return nil
}

// previous is the number of the newest recorded revision that is not current, 0 if there is none. One without content is not passed over:
// the one before it is not what the user means.
func previous(revisions []fleetv1alpha1.Revision) int64 {
	for _, r := range slices.Backward(revisions) {
		if !r.Current && r.Revision != 0 {
			return r.Revision
		}
	}
	return 0
}

// policies brings back the policies of a revision.
func (o *undoOptions) policies(ctx context.Context, w *writer, target *decoded) error {
	if o.what == whatTemplate {
		return nil
	}
	for _, part := range target.Hidden {
		if part != fleetv1alpha1.RevisionClusters {
			return fmt.Errorf("revision %d has a %s policy that you may not get, so that you cannot bring it back\nbring back the template alone: --what template", target.Revision, strings.ToLower(string(part)))
		}
	}
	for _, object := range append([]map[string]any{target.policy}, target.overrides...) {
		if object == nil {
			continue
		}
		resource, err := policyResource(object)
		if err != nil {
			return err
		}
		if err := w.bringBack(ctx, resource, object, true); err != nil {
			return err
		}
	}
	return nil
}

func policyResource(object map[string]any) (schema.GroupVersionResource, error) {
	kind := (&unstructured.Unstructured{Object: object}).GetKind()
	plural, ok := map[string]string{
		policyv1alpha1.KindPropagationPolicy:        policyv1alpha1.ResourcePluralPropagationPolicy,
		policyv1alpha1.KindClusterPropagationPolicy: policyv1alpha1.ResourcePluralClusterPropagationPolicy,
		policyv1alpha1.KindOverridePolicy:           policyv1alpha1.ResourcePluralOverridePolicy,
		policyv1alpha1.KindClusterOverridePolicy:    policyv1alpha1.ResourcePluralClusterOverridePolicy,
	}[kind]
	if !ok {
		return schema.GroupVersionResource{}, fmt.Errorf("a revision has a policy of kind %q, which this program does not have", kind)
	}
	return policyv1alpha1.GroupVersion.WithResource(plural), nil
}

// report prints what was not brought back, and why.
func (o *undoOptions) report(s cli.Streams, w *writer, answer *fleetv1alpha1.History, target *decoded) {
	if w.changed == 0 {
		fmt.Fprintf(s.Out, "%s is as in revision %d: nothing to change\n", strings.Join(o.parts(), " and "), target.Revision)
	}
	now, err := content(answer, 0)
	if err != nil {
		return // its own policy is hidden
	}
	if o.what != whatTemplate {
		was := target.objects()
		for _, object := range append([]map[string]any{now.policy}, now.overrides...) {
			if object != nil && was.byKey[nameOf(object)] == nil {
				fmt.Fprintf(s.Err, "%s came after revision %d and stays: change or delete it to undo what it does\n", nameOf(object), target.Revision)
			}
		}
	}
	if len(history.Edits(target.clusters(), now.clusters())) > 0 && w.changed == 0 {
		fmt.Fprintf(s.Err, "Its clusters are others than in revision %d, since the clusters changed: see flagship explain %s/%s -n %s\n", target.Revision, o.kind, o.name, o.namespace)
	}
}

func (o *undoOptions) parts() []string {
	switch o.what {
	case whatTemplate:
		return []string{"the template"}
	case whatPolicy:
		return []string{"the policy"}
	}
	return []string{"the template", "its policies"}
}

// writer brings objects back, with the rights of the user.
type writer struct {
	client  dynamic.Interface
	streams cli.Streams
	dryRun  []string
	suffix  string
	changed int
}

func newWriter(cfg *rest.Config, s cli.Streams, dryRun bool) (*writer, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	w := &writer{client: client, streams: s}
	if dryRun {
		w.dryRun, w.suffix = []string{metav1.DryRunAll}, " (dry run)"
	}
	return w, nil
}

// api is where an object is written, in its own version.
func (w *writer) api(resource schema.GroupVersionResource, object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource.Version = object.GroupVersionKind().Version
	if namespace := object.GetNamespace(); namespace != "" {
		return w.client.Resource(resource).Namespace(namespace)
	}
	return w.client.Resource(resource)
}

// bringBack makes an object what it was. One that is missing is created, if create is true.
func (w *writer) bringBack(ctx context.Context, resource schema.GroupVersionResource, was map[string]any, create bool) error {
	object := &unstructured.Unstructured{Object: was}
	api := w.api(resource, object)
	live, err := api.Get(ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) && create {
		return w.create(ctx, resource, was, false)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", nameOf(was), err)
	}
	if create {
		dropEmptyPlacement(live)
		dropEmptyPlacement(object)
	}
	wanted := merged(live, object)
	edits := history.Edits(history.Clean(live.Object), history.Clean(wanted.Object))
	if len(edits) == 0 {
		return nil
	}
	for _, edit := range edits {
		fmt.Fprintf(w.streams.Out, "%s %s: %s → %s\n", nameOf(was), edit.Path, cli.OrNone(edit.From), cli.OrNone(edit.To))
	}
	_, err = api.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: fieldManager, DryRun: w.dryRun})
	if apierrors.IsConflict(err) {
		return errors.Join(fmt.Errorf("%s was changed by another client at the same time, and was not overwritten", nameOf(was)),
			errors.New("run the command again"))
	}
	if err != nil {
		return fmt.Errorf("updating %s: %w", nameOf(was), err)
	}
	w.changed++
	fmt.Fprintf(w.streams.Out, "%s updated%s\n", nameOf(was), w.suffix)
	return nil
}

// dropEmptyPlacement removes the placement of a policy that has none: a revision has an empty one also if its author left it out.
func dropEmptyPlacement(policy *unstructured.Unstructured) {
	if placement, found, err := unstructured.NestedMap(policy.Object, "spec", "placement"); found && err == nil && len(placement) == 0 {
		unstructured.RemoveNestedField(policy.Object, "spec", "placement")
	}
}

// merged is a live object with what users wrote as it was. What is no part of a revision stays, such as its status, its claims, and the
// replicas that an autoscaler sets.
func merged(live, was *unstructured.Unstructured) *unstructured.Unstructured {
	result := live.DeepCopy()
	clean := &unstructured.Unstructured{Object: history.Clean(live.Object)}
	for key := range live.Object {
		if _, kept := was.Object[key]; !kept && key != "status" {
			delete(result.Object, key)
		}
	}
	for key, value := range was.DeepCopy().Object {
		if key != "metadata" {
			result.Object[key] = value
		}
	}
	if live.GetAnnotations()[policyv1alpha1.AutoscaledAnnotation] != "" {
		if replicas, found, err := unstructured.NestedFieldNoCopy(live.Object, "spec", "replicas"); found && err == nil {
			_ = unstructured.SetNestedField(result.Object, replicas, "spec", "replicas") // it was there, so that it can be set
		}
	}
	result.SetLabels(withOthers(was.GetLabels(), live.GetLabels(), clean.GetLabels()))
	result.SetAnnotations(withOthers(was.GetAnnotations(), live.GetAnnotations(), clean.GetAnnotations()))
	return result
}

// withOthers are the values of a revision, with those of the live object that are no part of any.
func withOthers(was, live, clean map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range live {
		if _, users := clean[key]; !users {
			all[key] = value
		}
	}
	maps.Copy(all, was)
	return all
}

// nameOf is an object as kubectl names it.
func nameOf(object map[string]any) string {
	of := &unstructured.Unstructured{Object: object}
	return strings.ToLower(of.GetKind()) + "/" + of.GetName()
}

package history

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

type undeleteOptions struct {
	object
	allNamespaces, all, dryRun bool
	out                        cli.Output
}

func newUndeleteCommand(s cli.Streams) *cobra.Command {
	var o undeleteOptions
	c := &cobra.Command{
		Use:   "undelete [TYPE/NAME]",
		Short: "List what was deleted, or bring it back",
		Long: `Without an object, lists the templates of a namespace that were deleted on the control plane within the last day and can be brought
back. With one, creates it as it was when it was deleted, with its policy and its override policies where these are missing. Every object is created by an ordinary
request with your rights. What exists again is not changed.`,
		Example: `  flagship undelete -n shop
  flagship undelete deployment/web -n shop
  flagship undelete -n shop --all          # after the namespace was created again`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.out.Check(); err != nil {
				return err
			}
			if len(args) > 0 {
				if err := o.parse("undelete", args); err != nil {
					return err
				}
			}
			if o.allNamespaces && (o.all || o.kind != "") || o.all && o.kind != "" {
				return cli.UsageErrorf("undelete brings back one object, or with --all those of one namespace\nuse --all-namespaces for the list alone")
			}
			return o.run(cmd.Context(), s)
		},
	}
	o.flags(c)
	o.out.Flags(c)
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "list what was deleted in all namespaces, and cluster-scoped objects")
	c.Flags().BoolVar(&o.all, "all", false, "bring back everything of the namespace that does not exist")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "have the control plane check what would be created, without storing it")
	return c
}

func (o *undeleteOptions) run(ctx context.Context, s cli.Streams) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	if o.kind == "" && !o.all {
		return o.list(ctx, cfg, s)
	}
	question := &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Namespace: o.namespace, Name: o.name, Contents: true}}
	if o.kind != "" {
		resource, err := cli.Resolve(cfg, o.kind)
		if err != nil {
			return err
		}
		question.Spec.Group, question.Spec.Resource = resource.Group, resource.Resource
		if clusterScoped(cfg, resource) {
			question.Spec.Namespace = ""
		}
	}
	w, err := newWriter(cfg, s, o.dryRun)
	if err != nil {
		return err
	}
	return o.bringBack(ctx, cfg, w, question)
}

// bringBack creates the objects that a question is about, page by page. Of an object that was deleted several times the last one counts.
func (o *undeleteOptions) bringBack(ctx context.Context, cfg *rest.Config, w *writer, question *fleetv1alpha1.Undeletion) error {
	var failed []error
	seen := map[fleetv1alpha1.ObjectIdentity]bool{}
	for {
		if err := ask(ctx, cfg, question); err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, d := range newestOf(question.Status.Objects, seen, question.Spec.Namespace == "") {
			if d.Exists && o.all {
				continue
			}
			if err := w.undelete(ctx, cfg, d); err != nil {
				failed = append(failed, err)
			}
		}
		question.Spec.Continue = question.Status.Continue
		if question.Status = (fleetv1alpha1.UndeletionStatus{}); question.Spec.Continue == "" || !o.all && len(seen) > 0 {
			break
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("nothing of that name was deleted that you may get\nlist what can be brought back: flagship undelete %s", o.listFlag(question))
	}
	if w.changed == 0 && len(failed) == 0 {
		fmt.Fprintln(w.streams.Out, "all of it exists: nothing to create")
	}
	return errors.Join(failed...)
}

// newestOf are the objects of a page that were not seen before, and marks them as seen: later ones are earlier deletions. If wide, only
// cluster-scoped objects are meant.
func newestOf(page []fleetv1alpha1.DeletedObject, seen map[fleetv1alpha1.ObjectIdentity]bool, wide bool) []fleetv1alpha1.DeletedObject {
	var newest []fleetv1alpha1.DeletedObject
	for _, d := range page {
		if wide && d.Object.Namespace != "" || seen[d.Object] {
			continue
		}
		seen[d.Object] = true
		newest = append(newest, d)
	}
	return newest
}

// listFlag is the flag with which the list has what a question is about.
func (o *undeleteOptions) listFlag(question *fleetv1alpha1.Undeletion) string {
	if question.Spec.Namespace == "" {
		return "-A"
	}
	return "-n " + o.namespace
}

// clusterScoped returns whether objects of a resource have no namespace.
func clusterScoped(cfg *rest.Config, resource schema.GroupVersionResource) bool {
	namespaced, err := cli.Namespaced(cfg, resource)
	return err == nil && !namespaced
}

func ask(ctx context.Context, cfg *rest.Config, question *fleetv1alpha1.Undeletion) error {
	question.TypeMeta = metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: fleetv1alpha1.KindUndeletion}
	return cli.Ask(ctx, cfg, fleetv1alpha1.ResourcePluralUndeletion, question)
}

// list prints what can be brought back.
func (o *undeleteOptions) list(ctx context.Context, cfg *rest.Config, s cli.Streams) error {
	question := &fleetv1alpha1.Undeletion{Spec: fleetv1alpha1.UndeletionSpec{Namespace: o.namespace}}
	if o.allNamespaces {
		question.Spec.Namespace = ""
	}
	if err := ask(ctx, cfg, question); err != nil {
		return err
	}
	now := time.Now()
	rows := make([][]string, 0, len(question.Status.Objects))
	for _, d := range question.Status.Objects {
		exists := "no"
		switch {
		case d.Exists:
			exists = "yes"
		case d.TooLargeBytes > 0:
			exists = "no, and too large to be kept"
		}
		rows = append(rows, []string{
			cli.OrNone(d.Object.Namespace), d.Object.Kind, d.Object.Name, duration.HumanDuration(now.Sub(d.Time.Time)), cli.OrNone(d.User),
			duration.HumanDuration(d.Expires.Sub(now)), exists,
		})
	}
	if err := o.out.Print(s, question, "NAMESPACE KIND NAME DELETED BY EXPIRES EXISTS", rows); err != nil {
		return err
	}
	if question.Status.Truncated {
		fmt.Fprintf(s.Err, "older ones than these %d are left out: name a namespace with -n, or an object\n", len(question.Status.Objects))
	}
	return nil
}

// undelete creates an object with its policies, where they are missing.
func (w *writer) undelete(ctx context.Context, cfg *rest.Config, d fleetv1alpha1.DeletedObject) error {
	if d.Content == nil {
		return fmt.Errorf("%s/%s was too large to be kept (%d bytes), and cannot be brought back\napply it again from where it came", strings.ToLower(d.Object.Kind), d.Object.Name, d.TooLargeBytes)
	}
	was, err := decodedOf(*d.Content)
	if err != nil {
		return err
	}
	for _, part := range was.Hidden {
		if part != fleetv1alpha1.RevisionClusters {
			fmt.Fprintf(w.streams.Err, "%s: its %s is hidden, since you may not get it, and is not brought back\n", nameOf(was.template), strings.ToLower(string(part)))
		}
	}
	for _, object := range append([]map[string]any{was.policy}, was.overrides...) {
		if object == nil {
			continue
		}
		resource, err := policyResource(object)
		if err != nil {
			return err
		}
		if err := w.create(ctx, resource, object, true); err != nil {
			return err
		}
	}
	resource, err := cli.ResourceOf(cfg, (&unstructured.Unstructured{Object: was.template}).GroupVersionKind())
	if err != nil {
		return err
	}
	return w.create(ctx, resource, was.template, false)
}

// create creates an object. One that exists is an error, unless that is accepted.
func (w *writer) create(ctx context.Context, resource schema.GroupVersionResource, was map[string]any, exists bool) error {
	object := &unstructured.Unstructured{Object: was}
	_, err := w.api(resource, object).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager, DryRun: w.dryRun})
	switch {
	case apierrors.IsAlreadyExists(err) && exists:
		return nil
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s exists, and was not changed\ndelete or rename it, or see what it was before: flagship history", nameOf(was))
	case apierrors.IsNotFound(err) && object.GetNamespace() != "":
		return fmt.Errorf("creating %s: %w\ncreate the namespace first: kubectl create namespace %s", nameOf(was), err, object.GetNamespace())
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("creating %s: the namespace %s is being deleted\nwait until it is gone, and create it again", nameOf(was), object.GetNamespace())
	case err != nil:
		return fmt.Errorf("creating %s: %w", nameOf(was), err)
	}
	w.changed++
	fmt.Fprintf(w.streams.Out, "%s created%s\n", nameOf(was), w.suffix)
	return nil
}

package preview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/preview"
	"github.com/flagship-k8s/flagship/internal/host/preview/offline"
	"github.com/flagship-k8s/flagship/internal/host/preview/summary"
	"github.com/flagship-k8s/flagship/internal/knowledge/brake"
	"github.com/flagship-k8s/flagship/internal/knowledge/explain"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

var formats = []string{"diff", "table", "json", "yaml"}

// options are the flags of the command.
type options struct {
	hub                                 cli.HubAccess
	files                               []string
	recursive, remove, members          bool
	namespace, format, snapshot, export string
}

// Commands are those of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{newPreviewCommand(s), newTestCommand(s)}
}

func newPreviewCommand(s cli.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "preview -f FILE",
		Short: "Show what applying or deleting objects would do in every cluster",
		Long: `Shows what a change of the control plane would do: which policies win or lose objects, which clusters gain or lose them or change
replicas, what changes of each object in each cluster, evictions, deletions, and what the control plane would refuse. Nothing is changed.
The loops that would make the change compute the answer, on a copy of what they read.

The exit code is 0 if nothing would change, 1 if something would, and above 1 after an error.`,
		Example: `  flagship preview -f app/
  flagship preview -f policy.yaml -n shop --members
  flagship preview -f old.yaml --delete -o table
  flagship preview --export fleet.yaml                      # then, without a control plane:
  flagship preview --hub-snapshot fleet.yaml -f app/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := o.run(cmd.Context(), s)
			if _, changes := errors.AsType[cli.Exit](err); changes || err == nil {
				return err
			}
			if _, misuse := errors.AsType[cli.UsageError](err); misuse {
				return err
			}
			return failure{err}
		},
	}
	o.hub.Flags(c)
	f := c.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, `file or folder with the objects, "-" for the standard input; may be repeated`)
	f.BoolVarP(&o.recursive, "recursive", "R", false, "read folders below the folders, too")
	f.BoolVar(&o.remove, "delete", false, "the objects are deleted, not applied")
	f.BoolVar(&o.members, "members", false, "also apply each object in its members, in a dry run there and with your rights")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that name none (default: that of the context)")
	f.StringVarP(&o.format, "output", "o", "diff", "how to print: "+strings.Join(formats, ", "))
	f.StringVar(&o.snapshot, "hub-snapshot", "", "file that --export wrote, instead of a control plane")
	f.StringVar(&o.export, "export", "", "write what a preview needs of the control plane to this file, and end")
	return c
}

// failure is an error, which has another exit code than changes have.
type failure struct{ error }

// Unwrap returns the reason.
func (f failure) Unwrap() error { return f.error }

// ExitStatus is the exit code.
func (failure) ExitStatus() int { return 2 }

func (o *options) check() error {
	switch {
	case !slices.Contains(formats, o.format):
		return cli.UsageErrorf("--output %q is none of %s", o.format, strings.Join(formats, ", "))
	case o.export != "" && (o.snapshot != "" || len(o.files) > 0):
		return cli.UsageErrorf("--export writes a file and previews nothing\nleave out -f and --hub-snapshot")
	case o.export == "" && len(o.files) == 0:
		return cli.UsageErrorf("preview needs objects\nname a file or a folder: flagship preview -f FILE")
	case o.snapshot != "" && o.members:
		return cli.UsageErrorf("--members needs a control plane\nleave out --hub-snapshot")
	}
	return nil
}

func (o *options) run(ctx context.Context, s cli.Streams) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.export != "" {
		config, err := o.hub.Config()
		if err != nil {
			return err
		}
		return export(ctx, s, config, o.export)
	}
	objects, err := readAll(s, o.files, o.recursive)
	if err != nil {
		return err
	}
	question := &fleetv1alpha1.Preview{
		TypeMeta: metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: fleetv1alpha1.KindPreview},
		Spec:     fleetv1alpha1.PreviewSpec{Namespace: o.namespace, Members: o.members},
	}
	if err := fill(&question.Spec, objects, o.remove); err != nil {
		return err
	}
	answer, err := o.answer(ctx, s, question)
	if err != nil {
		return err
	}
	if err := printTo(s, o.format, answer); err != nil {
		return err
	}
	if answer.Status.Changes {
		return cli.Exit(1)
	}
	return nil
}

// fill puts the objects into a question.
func fill(spec *fleetv1alpha1.PreviewSpec, objects []*unstructured.Unstructured, remove bool) error {
	for _, obj := range objects {
		if remove {
			spec.Delete = append(spec.Delete, fleetv1alpha1.ObjectIdentity{
				APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(),
			})
			continue
		}
		raw, err := obj.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encoding %s %s: %w", obj.GetKind(), obj.GetName(), err)
		}
		spec.Apply = append(spec.Apply, runtime.RawExtension{Raw: raw})
	}
	return nil
}

// answer gets the answer of the control plane, or computes the answer from an export.
func (o *options) answer(ctx context.Context, s cli.Streams, question *fleetv1alpha1.Preview) (*fleetv1alpha1.Preview, error) {
	if o.snapshot != "" {
		objects, err := readAll(s, []string{o.snapshot}, false)
		if err != nil {
			return nil, err
		}
		kinds, err := offline.ReadKinds(clock.RealClock{})
		if err != nil {
			return nil, err
		}
		hub, err := offline.New(ctx, kinds, objects, preview.Config{Clock: clock.RealClock{}})
		if err != nil {
			return nil, fmt.Errorf("reading the export: %w", err)
		}
		return question, compute(ctx, hub, question)
	}
	config, namespace, err := o.hub.ConfigAndNamespace()
	if err != nil {
		return nil, err
	}
	if question.Spec.Namespace == "" {
		question.Spec.Namespace = namespace
	}
	return question, cli.Ask(ctx, config, fleetv1alpha1.ResourcePluralPreview, question)
}

// compute answers a question without a control plane. There all may be seen.
func compute(ctx context.Context, hub *offline.Control, question *fleetv1alpha1.Preview) error {
	status := &question.Status
	if err := hub.Change(ctx, &question.Spec, hub, status); err != nil {
		return err
	}
	if _, err := hub.Answer(ctx, brake.Config{}, func(explain.Right) bool { return true }, status); err != nil {
		return err
	}
	summary.Complete(status)
	question.Spec.Apply = nil // as in an answer of the control plane
	return nil
}

// printTo prints an answer in a format.
func printTo(s cli.Streams, format string, answer *fleetv1alpha1.Preview) error {
	return cli.PrintAs(s, format, answer, func() string {
		if format == "table" {
			return table(&answer.Status)
		}
		return diff(&answer.Status)
	})
}

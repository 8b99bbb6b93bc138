package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

var formats = []string{"tree", "table", "json", "yaml"}

// options are the flags of the command.
type options struct {
	hub                                cli.HubAccess
	namespace, cluster, member, format string
}

// NewCommand explains an object.
func NewCommand(s cli.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "explain TYPE/NAME",
		Short: "Show why an object is in its clusters, or is not",
		Long: `Shows the path of an object: the policies that select it and why each other lost, the binding, why each cluster was chosen or
dropped and what would let it in, the overrides and what they changed, the Works, what members report. Each step has its time and what
made it; a step that waits says for what. The control plane answers with what you may get; the rest is hidden.`,
		Example: `  flagship explain deployment/nginx -n shop
  flagship explain deployment/nginx --cluster member3
  flagship explain deployment/nginx --in member3
  kubectl flagship explain deploy nginx        # if a file kubectl-flagship in the PATH is this program`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 2 || len(args) == 1 && strings.Count(args[0], "/") == 1 {
				return nil
			}
			return cli.UsageErrorf("explain needs one object\nname it as TYPE/NAME, such as deployment/nginx")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(formats, o.format) {
				return cli.UsageErrorf("--output %q is none of %s", o.format, strings.Join(formats, ", "))
			}
			kind, name, _ := strings.Cut(strings.Join(args, "/"), "/")
			return o.run(cmd.Context(), s, kind, name)
		},
	}
	o.hub.Flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the object")
	c.Flags().StringVar(&o.cluster, "cluster", "", "only this cluster")
	o.hub.CompleteFlag(c, "cluster")
	c.Flags().StringVar(&o.member, "in", "", "explain the object in this member cluster: whose it is, and who owns which of its fields")
	c.Flags().StringVarP(&o.format, "output", "o", "tree", "how to print: "+strings.Join(formats, ", "))
	return c
}

func (o *options) run(ctx context.Context, s cli.Streams, kind, name string) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	question := &fleetv1alpha1.Explanation{
		TypeMeta: metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: fleetv1alpha1.KindExplanation},
		Spec:     fleetv1alpha1.ExplanationSpec{Namespace: o.namespace, Name: name, Cluster: o.cluster, Member: o.member},
	}
	resource, err := cli.ResolveIn(cfg, o.member, kind)
	if err != nil {
		return err
	}
	question.Spec.Group, question.Spec.Resource = resource.Group, resource.Resource
	if err := cli.Ask(ctx, cfg, fleetv1alpha1.ResourcePluralExplanation, question); err != nil {
		return err
	}
	if err := o.print(s, question); err != nil {
		return err
	}
	if question.Status.Object == nil {
		return absent(question)
	}
	return nil
}

// absent is the error about an object that does not exist.
func absent(answer *fleetv1alpha1.Explanation) error {
	spec := &answer.Spec
	if len(answer.Status.Instead) == 0 {
		if spec.Member != "" {
			return fmt.Errorf("there is nothing to explain\nlist what there is: flagship get %s -A --clusters %s", spec.Resource, spec.Member)
		}
		return fmt.Errorf("there is nothing to explain\nlist what there is: kubectl get %s -A", spec.Resource)
	}
	other := answer.Status.Instead[0]
	command := fmt.Sprintf("flagship explain %s/%s", strings.ToLower(other.Kind), other.Name)
	if other.Namespace != "" {
		command += " -n " + other.Namespace
	}
	return fmt.Errorf("there is nothing to explain\ntry: %s", command)
}

func (o *options) print(s cli.Streams, answer *fleetv1alpha1.Explanation) error {
	return cli.PrintAs(s, o.format, answer, func() string {
		if o.format == "table" {
			return table(&answer.Status, time.Now())
		}
		return tree(&answer.Status, time.Now())
	})
}

// named is an object as kubectl names it.
func named(o *fleetv1alpha1.ObjectIdentity) string {
	if o == nil {
		return ""
	}
	return cmp.Or(o.Kind, "?") + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

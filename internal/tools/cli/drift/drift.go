package drift

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

var formats = []string{"table", "json", "yaml"}

// options are the flags of the command.
type options struct {
	hub                        cli.HubAccess
	namespace, cluster, format string
	all                        bool
}

// NewCommand shows drift.
func NewCommand(s cli.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "drift [TYPE | TYPE/NAME]",
		Short: "Show which fields others changed in members, and what happens to them",
		Long: `Shows the fields of objects in members that differ from what the control plane applies there, or that differed within the last hour: the
desired value and the one that was found, the field manager that changed it, since when, and what happens: it is put back, or left
because another manager owns it. Objects that others deleted, and that were created again, are shown, too. Values are shown to who may get the object in the member through the proxy of the cluster, or its Work.`,
		Example: `  flagship drift -A
  flagship drift deployment/nginx -n shop
  flagship drift deployments -n shop --cluster member3 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) <= 2 && (len(args) < 1 || strings.Count(args[0], "/") <= 2-len(args)) {
				return nil
			}
			return cli.UsageErrorf("drift takes one type or object\nname it as TYPE/NAME, such as deployment/nginx")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(formats, o.format) {
				return cli.UsageErrorf("--output %q is none of %s", o.format, strings.Join(formats, ", "))
			}
			kind, name, _ := strings.Cut(strings.Join(args, "/"), "/")
			if o.all && name != "" {
				return cli.UsageErrorf("an object is in one namespace: leave out --all-namespaces, or the name")
			}
			return o.run(cmd.Context(), s, kind, name)
		},
	}
	c.AddCommand(newAck(s), newAdopt(s))
	o.hub.Flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the objects")
	c.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "all namespaces, and objects without one")
	c.Flags().StringVar(&o.cluster, "cluster", "", "only this cluster")
	o.hub.CompleteFlag(c, "cluster")
	c.Flags().StringVarP(&o.format, "output", "o", "table", "how to print: "+strings.Join(formats, ", "))
	return c
}

func (o *options) run(ctx context.Context, s cli.Streams, kind, name string) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	_, answer, err := o.ask(ctx, cfg, kind, name)
	if err != nil {
		return err
	}
	return o.print(s, answer)
}

// ask creates a DriftReport.
func (o *options) ask(ctx context.Context, cfg *rest.Config, kind, name string) (schema.GroupVersionResource, *fleetv1alpha1.DriftReport, error) {
	question := &fleetv1alpha1.DriftReport{
		TypeMeta: metav1.TypeMeta{APIVersion: fleetv1alpha1.GroupVersion.String(), Kind: fleetv1alpha1.KindDriftReport},
		Spec:     fleetv1alpha1.DriftReportSpec{Namespace: o.namespace, Name: name, Cluster: o.cluster},
	}
	if o.all {
		question.Spec.Namespace = ""
	}
	var resource schema.GroupVersionResource
	if kind != "" {
		var err error
		if resource, err = cli.Resolve(cfg, kind); err != nil {
			return resource, nil, err
		}
		question.Spec.Group, question.Spec.Resource = resource.Group, resource.Resource
	}
	return resource, question, cli.Ask(ctx, cfg, fleetv1alpha1.ResourcePluralDriftReport, question)
}

func (o *options) print(s cli.Streams, answer *fleetv1alpha1.DriftReport) error {
	return cli.PrintAs(s, o.format, answer, func() string { return table(&answer.Status, time.Now()) })
}

package drift

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// fieldManager is the name under which templates are changed.
const fieldManager = "flagship-drift"

// newAck acknowledges what a policy pauses.
func newAck(s cli.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "ack TYPE/NAME",
		Short: "Have changes of others put back that a policy pauses",
		Long: `Sets the annotation ` + policyv1alpha1.DriftAcknowledgedAnnotation + ` of a template, as you, to the time at which the latest paused difference was
found. What was found until then is put back in all clusters, and the object is written again. A later difference is paused again.`,
		Example: "  flagship drift ack deployment/nginx -n shop",
		Args:    oneObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, _ := strings.Cut(strings.Join(args, "/"), "/")
			return o.acknowledge(cmd.Context(), s, kind, name)
		},
	}
	o.hub.Flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the object")
	return c
}

// oneObject accepts TYPE/NAME or TYPE NAME.
func oneObject(_ *cobra.Command, args []string) error {
	if len(args) == 2 || len(args) == 1 && strings.Count(args[0], "/") == 1 {
		return nil
	}
	return cli.UsageErrorf("one object is needed\nname it as TYPE/NAME, such as deployment/nginx")
}

func (o *options) acknowledge(ctx context.Context, s cli.Streams, kind, name string) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	resource, answer, err := o.ask(ctx, cfg, kind, name)
	if err != nil {
		return err
	}
	until, clusters := paused(answer.Status.Objects)
	if len(clusters) == 0 {
		return fmt.Errorf("nothing of %s/%s is paused\nshow what differs: flagship drift %s/%s -n %s", kind, name, kind, name, o.namespace)
	}
	hub, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
		policyv1alpha1.DriftAcknowledgedAnnotation: until.UTC().Format(time.RFC3339),
	}}})
	if err != nil {
		return fmt.Errorf("encoding the annotation: %w", err)
	}
	if err := patchTemplate(ctx, hub, resource, templateNamespace(&answer.Status.Objects[0], o.namespace), name, patch); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "acknowledged: %s/%s is put back in %s\n", kind, name, strings.Join(clusters, ", "))
	return err
}

func patchTemplate(ctx context.Context, hub dynamic.Interface, resource schema.GroupVersionResource, namespace, name string, patch []byte) error {
	_, err := hub.Resource(resource).Namespace(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("changing the template: %w", err)
	}
	return nil
}

// templateNamespace is "" for a cluster-scoped object.
func templateNamespace(o *fleetv1alpha1.DriftedObject, namespace string) string {
	if o.Object.Namespace == "" {
		return ""
	}
	return namespace
}

// paused returns when the latest paused difference was found, and the clusters with one.
func paused(objects []fleetv1alpha1.DriftedObject) (until time.Time, clusters []string) {
	for i := range objects {
		o := &objects[i]
		if !slices.ContainsFunc(o.Fields, func(f fleetv1alpha1.DriftedField) bool { return f.Outcome == fleetv1alpha1.DriftPaused }) {
			continue
		}
		clusters = append(clusters, o.Cluster)
		if o.Last.After(until) {
			until = o.Last.Time
		}
	}
	slices.Sort(clusters)
	return until, clusters
}

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// fieldManager is that of "kubectl apply --server-side", so that either command continues what the other began.
const fieldManager = "kubectl"

// options are the flags of the command.
type options struct {
	hub           cli.HubAccess
	files         resource.FilenameOptions
	namespace     string
	clusters      []string
	all           bool
	force, dryRun bool
}

// NewCommand is the command apply.
func NewCommand(s cli.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "apply -f FILE [--clusters CLUSTER,... | --all-clusters]",
		Short: "Apply objects to the control plane, and propagate them to clusters",
		Long: `Applies objects to the control plane by server-side apply, as kubectl apply --server-side does. With --clusters or --all-clusters each
object also gets a policy that propagates it to these clusters; the policy is applied first. It has the name of the object and its kind, as in
web-deployment. Without them the policies of the control plane decide.`,
		Example: `  flagship apply -f web.yaml --clusters member1,member2
  flagship apply -f app/ -n shop --all-clusters --dry-run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			config, namespace, err := o.hub.ConfigAndNamespace()
			if err != nil {
				return err
			}
			if o.namespace != "" {
				namespace = o.namespace
			}
			hub, err := fleet.NewAccess(config, namespace)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), s, hub)
		},
	}
	o.hub.Flags(c)
	f := c.Flags()
	f.StringArrayVarP(&o.files.Filenames, "filename", "f", nil, `file, folder or URL with the objects, "-" for the standard input; may be repeated`)
	f.BoolVarP(&o.files.Recursive, "recursive", "R", false, "read folders below the folders, too")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of objects that name none (default: that of the kubeconfig's context)")
	f.StringSliceVar(&o.clusters, "clusters", nil, "propagate each object to these clusters, separated by commas")
	o.hub.CompleteFlag(c, "clusters")
	f.BoolVar(&o.all, "all-clusters", false, "propagate each object to every cluster, also to those that join later")
	f.BoolVar(&o.force, "force-conflicts", false, "also take fields that belong to other field managers")
	f.BoolVar(&o.dryRun, "dry-run", false, "have the control plane check everything, and write nothing")
	return c
}

func (o *options) check() error {
	switch {
	case len(o.files.Filenames) == 0:
		return cli.UsageErrorf("apply needs objects\nname a file or a folder: flagship apply -f FILE")
	case o.all && len(o.clusters) > 0:
		return cli.UsageErrorf("--clusters and --all-clusters exclude each other")
	}
	return nil
}

// run applies what can be applied, and reports the rest.
func (o *options) run(ctx context.Context, s cli.Streams, hub *fleet.Access) error {
	infos, err := resource.NewBuilder(hub).Unstructured().ContinueOnError().NamespaceParam(hub.Namespace).DefaultNamespace().
		FilenameParam(false, &o.files).Flatten().Do().Infos()
	if err != nil {
		return fmt.Errorf("reading the objects: %w", err)
	}
	client, err := dynamic.NewForConfig(hub.Config)
	if err != nil {
		return fmt.Errorf("connecting to the control plane: %w", err)
	}
	var failed []error
	for _, info := range infos {
		obj, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s has no object but %T", info.Source, info.Object)
		}
		line, err := o.one(ctx, client, info.Mapping, obj)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		s.Line(line)
	}
	return errors.Join(failed...)
}

// one applies an object and, before it, its policy: without that, another policy would have the object for a moment.
func (o *options) one(ctx context.Context, client dynamic.Interface, mapping *meta.RESTMapping, obj *unstructured.Unstructured) (line string, err error) {
	name := strings.ToLower(obj.GetKind()) + "/" + obj.GetName()
	if obj.GetName() == "" {
		return "", fmt.Errorf("a %s has no metadata.name\ngive the object a name, so that it can be applied again", obj.GetKind())
	}
	propagated := (o.all || len(o.clusters) > 0) && isTemplate(obj)
	line = name + " applied"
	if propagated {
		policy, of := o.policyFor(obj)
		if err := o.apply(ctx, client.Resource(policyv1alpha1.GroupVersion.WithResource(of)).Namespace(obj.GetNamespace()), policy); err != nil {
			return "", fmt.Errorf("%s: its policy: %w", name, err)
		}
		line += fmt.Sprintf(", propagated by %s/%s", strings.ToLower(policy.GetKind()), policy.GetName())
	}
	if err := o.apply(ctx, client.Resource(mapping.Resource).Namespace(obj.GetNamespace()), obj); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if o.dryRun {
		line += " (dry run)"
	}
	return line, nil
}

// isTemplate returns whether a policy can propagate an object: a namespace is in every cluster without one.
func isTemplate(obj *unstructured.Unstructured) bool {
	kind := obj.GroupVersionKind()
	namespace := kind.Group == "" && kind.Kind == "Namespace"
	return !namespace && hubstore.Stays(hubstore.Ref{GroupVersionKind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}, obj) == ""
}

// policyFor returns the policy of an object, and its resource.
func (o *options) policyFor(obj *unstructured.Unstructured) (policy *unstructured.Unstructured, resource string) {
	kind, resource := policyv1alpha1.KindPropagationPolicy, policyv1alpha1.ResourcePluralPropagationPolicy
	if obj.GetNamespace() == "" {
		kind, resource = policyv1alpha1.KindClusterPropagationPolicy, policyv1alpha1.ResourcePluralClusterPropagationPolicy
	}
	selector := map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "name": obj.GetName()}
	// Without a field of its own, server-side apply would make null of it when the former clusterNames are removed.
	affinity := map[string]any{"exclude": []any{}}
	if len(o.clusters) > 0 {
		names := []any{}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(o.clusters))) {
			names = append(names, name)
		}
		affinity = map[string]any{"clusterNames": names}
	}
	policy = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"resourceSelectors": []any{selector}, "placement": map[string]any{"clusterAffinity": affinity},
	}}}
	policy.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind(kind))
	policy.SetName(workv1alpha2.BindingName(obj.GetKind(), obj.GetName()))
	if namespace := obj.GetNamespace(); namespace != "" {
		selector["namespace"] = namespace
		policy.SetNamespace(namespace)
	}
	return policy, resource
}

func (o *options) apply(ctx context.Context, to dynamic.ResourceInterface, obj *unstructured.Unstructured) error {
	body, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	patch := metav1.PatchOptions{FieldManager: fieldManager, Force: &o.force}
	if o.dryRun {
		patch.DryRun = []string{metav1.DryRunAll}
	}
	_, err = to.Patch(ctx, obj.GetName(), types.ApplyPatchType, body, patch)
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%w\ntake these fields out of the file, or take them over with --force-conflicts", err)
	case apierrors.IsNotFound(err) && obj.GetNamespace() != "":
		return fmt.Errorf("%w\ncreate the namespace with 'kubectl create namespace %s', which creates it in every cluster", err, obj.GetNamespace())
	}
	return err
}

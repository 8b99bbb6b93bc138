package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/host/interpreter"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// NewCommand is the command promote.
func NewCommand(s cli.Streams) *cobra.Command {
	var f fleet.Fleet
	var cluster string
	var dryRun, fromOrphans, withPolicy bool
	var patience time.Duration
	var out cli.Output
	c := &cobra.Command{
		Use:   "promote (TYPE NAME | TYPE/NAME | --orphans) --cluster CLUSTER",
		Short: "Bring an object of a member under management",
		Long: `Creates a template on the control plane from an object of a member, without the fields that the cluster sets, and a policy that
propagates it to that cluster and takes the object over. The object in the member is not created again, and its spec stays; it gets
the labels and annotations of managed objects. The command ends when it has them, or after --timeout. If the policy or the template is deleted later, the object is released and stays.

Override policies on the control plane that select the template apply to it, as to any other.

With --orphans it takes all objects of the cluster that this control plane manages and has no Work for, as 'flagship orphans' lists
them after a restore from a backup: those of --namespace, or of all. Each gets a template again. Policies that are on the control plane
decide where it goes; --with-policy makes one for each, which sends it to this cluster only. What override policies did to an object,
and its share of replicas, are in its template then.`,
		Example: `  flagship promote deployment nginx -n shop --cluster member1 --dry-run
  flagship promote deployment nginx -n shop --cluster member1
  flagship promote --orphans --cluster member1 --dry-run`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return cli.UsageErrorf("promote needs the cluster of the object\nname it with --cluster")
			}
			if fromOrphans != (len(args) == 0) {
				return cli.UsageErrorf("promote needs either an object or --orphans")
			}
			for _, name := range []string{"with-policy", "output"} {
				if !fromOrphans && cmd.Flags().Changed(name) {
					return cli.UsageErrorf("--%s needs --orphans", name)
				}
			}
			if err := out.Check(); err != nil {
				return err
			}
			f.Clusters = []string{cluster}
			members, err := f.Members(cmd.Context())
			if err != nil {
				return err
			}
			if fromOrphans {
				o := &orphans{member: members[0], namespace: f.Namespace, withPolicy: withPolicy, dryRun: dryRun}
				return o.command(cmd.Context(), s, &f, &out)
			}
			p, err := newPromotion(members[0], args)
			if err != nil {
				return fleet.In(members[0], err)
			}
			hub, err := access(&f, members[0])
			if err != nil {
				return err
			}
			if err := p.run(cmd.Context(), s, hub, dryRun); err != nil || dryRun || patience == 0 {
				return err
			}
			return p.await(cmd.Context(), s, members[0], patience)
		},
	}
	f.Hub.Flags(c)
	c.Flags().StringVarP(&cluster, "cluster", "C", "", "the cluster that has the object")
	f.Hub.CompleteFlag(c, "cluster")
	c.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "the namespace (default: that of the kubeconfig's context)")
	c.Flags().DurationVar(&f.Timeout, "request-timeout", fleet.DefaultTimeout, "how long the cluster may take for an answer")
	c.Flags().DurationVar(&patience, "timeout", time.Minute, "how long to wait until the object is adopted; 0 does not wait")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be created, and create nothing")
	c.Flags().BoolVar(&fromOrphans, "orphans", false, "promote all objects of the cluster that this control plane manages and has no Work for")
	c.Flags().BoolVar(&withPolicy, "with-policy", false, "with --orphans, create a policy for each that propagates it to the cluster")
	out.Flags(c)
	return c
}

// access returns that to the control plane, with the namespace of a member's.
func access(f *fleet.Fleet, m fleet.Member) (*fleet.Access, error) {
	config, _, err := f.Hub.ConfigAndNamespace()
	if err != nil {
		return nil, err
	}
	return fleet.NewAccess(config, m.Access.Namespace)
}

// promotion is what is created on the control plane. An orphan may have no policy.
type promotion struct {
	template, policy *unstructured.Unstructured
}

// newPromotion reads the object in its cluster.
func newPromotion(m fleet.Member, args []string) (*promotion, error) {
	var where fleet.Selection
	infos, err := where.Builder(m).ResourceTypeOrNameArgs(false, args...).Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	if len(infos) != 1 {
		return nil, cli.UsageErrorf("promote takes one object, not %d", len(infos))
	}
	obj, ok := infos[0].Object.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the server returned no object but %T", infos[0].Object)
	}
	template, err := templateOf(obj)
	if err != nil {
		return nil, err
	}
	policy, err := policyFor(template, m.Name)
	if err != nil {
		return nil, err
	}
	return &promotion{template, policy}, nil
}

// templateOf returns an object as a user would write it for the control plane.
func templateOf(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if obj.GetKind() == "Namespace" && obj.GroupVersionKind().Group == "" {
		return nil, errors.New("a namespace of the control plane is in every cluster\ncreate it there with 'kubectl create namespace'")
	}
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return nil, fmt.Errorf("it belongs to %s %s\npromote that instead", owner.Kind, owner.Name)
	}
	for _, keys := range []map[string]string{obj.GetLabels(), obj.GetAnnotations()} {
		for key := range keys {
			if workv1alpha1.IsOwnershipKey(key) {
				return nil, fmt.Errorf("it is managed by a control plane already: it has %s\nsee docs/security.md for an object of another control plane", key)
			}
		}
	}
	chain, err := interpreter.New(clock.RealClock{}, declarative.New())
	if err != nil {
		return nil, fmt.Errorf("building the interpreter: %w", err)
	}
	template := obj.DeepCopy()
	chain.Prune(template, nil)
	annotations := template.GetAnnotations()
	remove := []string{"kubectl.kubernetes.io/last-applied-configuration"}
	switch template.GroupVersionKind().GroupKind().String() {
	case "PersistentVolumeClaim":
		unstructured.RemoveNestedField(template.Object, "spec", "volumeName")
		remove = append(remove, "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
			"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
	case "Pod":
		unstructured.RemoveNestedField(template.Object, "spec", "nodeName")
	}
	for _, key := range remove {
		delete(annotations, key)
	}
	template.SetAnnotations(annotations)
	return template, nil
}

// policyFor propagates one template to one cluster, and takes over what is there.
func policyFor(template *unstructured.Unstructured, cluster string) (*unstructured.Unstructured, error) {
	spec := policyv1alpha1.PropagationSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{
			APIVersion: template.GetAPIVersion(), Kind: template.GetKind(), Namespace: template.GetNamespace(), Name: template.GetName(),
		}},
		Placement:          policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{cluster}}},
		ConflictResolution: policyv1alpha1.ConflictOverwrite,
	}
	named := metav1.ObjectMeta{Namespace: template.GetNamespace(), Name: workv1alpha2.BindingName(template.GetKind(), template.GetName())}
	var policy runtime.Object = &policyv1alpha1.PropagationPolicy{ObjectMeta: named, Spec: spec}
	kind := "PropagationPolicy"
	if named.Namespace == "" {
		policy, kind = &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: named, Spec: spec}, "ClusterPropagationPolicy"
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(policy)
	if err != nil {
		return nil, fmt.Errorf("encoding the policy: %w", err)
	}
	out := &unstructured.Unstructured{Object: object}
	out.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind(kind))
	return out, nil
}

// run creates what is promoted, or prints it.
func (p *promotion) run(ctx context.Context, s cli.Streams, hub *fleet.Access, dryRun bool) error {
	if err := p.create(ctx, hub, dryRun); err != nil {
		return err
	}
	if !dryRun {
		fmt.Fprintf(s.Out, "%s %s is on the control plane, with the %s %s\n", p.template.GetKind(), p.template.GetName(), p.policy.GetKind(), p.policy.GetName())
		return nil
	}
	for _, obj := range []*unstructured.Unstructured{p.policy, p.template} {
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		fmt.Fprintf(s.Out, "---\n%s", text)
	}
	return nil
}

// create creates the policy, if there is one, and then the template: without it, that would go where other policies send it. Both are tried
// before one is created.
func (p *promotion) create(ctx context.Context, hub *fleet.Access, dryRun bool) error {
	client, err := dynamic.NewForConfig(hub.Config)
	if err != nil {
		return fmt.Errorf("connecting to the control plane: %w", err)
	}
	templates, err := resourceOf(client, hub.Mapper, p.template)
	if err != nil {
		return fmt.Errorf("the control plane does not serve %s %s\napply its definition to the control plane first", p.template.GetAPIVersion(), p.template.GetKind())
	}
	if p.policy == nil {
		return p.createOne(ctx, templates, p.template, dryRun)
	}
	policies, err := resourceOf(client, hub.Mapper, p.policy)
	if err != nil {
		return err
	}
	if err := p.createOne(ctx, policies, p.policy, true); err != nil {
		return err
	}
	if err := p.createOne(ctx, templates, p.template, true); err != nil || dryRun {
		return err
	}
	policy, err := policies.Create(ctx, p.policy, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the policy: %w", err)
	}
	if _, err := templates.Create(ctx, p.template, metav1.CreateOptions{}); err != nil {
		uid := policy.GetUID()
		undo := policies.Delete(context.WithoutCancel(ctx), policy.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		return errors.Join(fmt.Errorf("creating the template: %w", err), undo)
	}
	return nil
}

// createOne creates an object, and returns errors that state what to do.
func (p *promotion) createOne(ctx context.Context, to dynamic.ResourceInterface, obj *unstructured.Unstructured, dryRun bool) error {
	var options metav1.CreateOptions
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err := to.Create(ctx, obj, options)
	switch {
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w on the control plane\nchange it there", err)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w on the control plane\ncreate it with 'kubectl create namespace %s', which creates it in every cluster", err, p.template.GetNamespace())
	case err != nil:
		return fmt.Errorf("creating %s on the control plane: %w", obj.GetKind(), err)
	}
	return nil
}

// await returns when the object in the member is adopted.
func (p *promotion) await(ctx context.Context, s cli.Streams, m fleet.Member, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := dynamic.NewForConfig(m.Access.Config)
	if err != nil {
		return fmt.Errorf("connecting to cluster %s: %w", m.Name, err)
	}
	objects, err := resourceOf(client, m.Access.Mapper, p.template)
	if err != nil {
		return fleet.In(m, err)
	}
	selected := fields.OneTermEqualSelector("metadata.name", p.template.GetName()).String()
	_, err = watchtools.UntilWithSync(ctx, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selected
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selected
			return objects.Watch(ctx, o)
		},
	}, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		obj, ok := event.Object.(*unstructured.Unstructured)
		return ok && event.Type != watch.Deleted && obj.GetAnnotations()[workv1alpha1.AdoptedAnnotation] != "", nil
	})
	if err != nil {
		return fmt.Errorf("%s %s in cluster %s is not adopted after %s: %w\nfind out why with 'flagship explain %s/%s --in %s'", p.template.GetKind(), p.template.GetName(),
			m.Name, patience, err, strings.ToLower(p.template.GetKind()), p.template.GetName(), m.Name)
	}
	fmt.Fprintf(s.Out, "the object in cluster %s is adopted\n", m.Name)
	return nil
}

func resourceOf(client dynamic.Interface, mapper meta.RESTMapper, obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := obj.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if namespace := obj.GetNamespace(); namespace != "" {
		return client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return client.Resource(mapping.Resource), nil
}

package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/flagship-k8s/flagship/internal/tools/cli/taken"
)

// options are what the command line says.
type options struct {
	fleet.Fleet
	cluster string
	// orphans, withPolicy and unrecorded are for objects that this control plane lost the templates of.
	orphans, withPolicy, unrecorded bool
	// acting allows an object that has an effect on the control plane itself.
	acting, dryRun bool
	// expect is the digest of what a dry run printed.
	expect   string
	patience time.Duration
	out      cli.Output
}

// NewCommand is the command promote.
func NewCommand(s cli.Streams) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "promote (TYPE NAME | TYPE/NAME | --orphans [TYPE/NAME]) --cluster CLUSTER",
		Short: "Bring an object of a member under management",
		Long: `Creates a template on the control plane from an object of a member, without the fields that the cluster sets, and a policy that
propagates it to that cluster and takes the object over. The object in the member is not created again, and its spec stays; it gets
the labels and annotations of managed objects. The command ends when it has them, or after --timeout. If the policy or the template is deleted later, the object is released and stays.

Override policies on the control plane that select the template apply to it, as to any other.

The owner of the cluster decides what the object has. --dry-run prints what would be created, and its digest; with --expect DIGEST exactly
that is created, or nothing. An object that has an effect on the control plane itself, such as a Role, a webhook configuration, or anything
cluster-scoped, needs --acts-on-control-plane and --expect, and is printed before it is created. Nothing is created in the namespaces of the control plane.

With --orphans it takes objects of the cluster that this control plane manages and has no Work for, as 'flagship orphans' lists them: those of
--namespace, or of all, or the one that is named. Each gets a template again. Policies that are on the control plane
decide where it goes; --with-policy makes one for each, which sends it to this cluster only. What override policies did to an object,
and its share of replicas, are in its template then. It takes those that the control plane has a record of having deleted. Others were made
after the backup that it was restored from, or by the owner of the cluster: --unrecorded takes them too, each with a policy for this cluster.`,
		Example: `  flagship promote deployment nginx -n shop --cluster member1 --dry-run
  flagship promote deployment nginx -n shop --cluster member1
  flagship promote --orphans --unrecorded --with-policy --cluster member1 --dry-run
  flagship promote --orphans --unrecorded --with-policy --cluster member1 --expect sha256:...`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(args, cmd.Flags().Changed); err != nil {
				return err
			}
			o.Clusters = []string{o.cluster}
			members, err := o.Members(cmd.Context())
			if err != nil {
				return err
			}
			hub, err := access(&o.Fleet, members[0])
			if err != nil {
				return err
			}
			if o.orphans {
				return (&orphans{options: &o, member: members[0], hub: hub}).command(cmd.Context(), s, args)
			}
			p, err := o.read(cmd.Context(), members[0], hub, args)
			if err != nil {
				return fleet.In(members[0], err)
			}
			if err := o.run(cmd.Context(), s, hub, p); err != nil || o.dryRun || o.patience == 0 {
				return err
			}
			return p.await(cmd.Context(), s, members[0], o.patience)
		},
	}
	o.Hub.Flags(c)
	f := c.Flags()
	f.StringVarP(&o.cluster, "cluster", "C", "", "the cluster that has the object")
	o.Hub.CompleteFlag(c, "cluster")
	f.StringVarP(&o.Namespace, "namespace", "n", "", "the namespace (default: that of the kubeconfig's context)")
	f.DurationVar(&o.Timeout, "request-timeout", fleet.DefaultTimeout, "how long the cluster may take for an answer")
	f.DurationVar(&o.patience, "timeout", time.Minute, "how long to wait until the object is adopted; 0 does not wait")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be created, and its digest, and create nothing")
	f.StringVar(&o.expect, "expect", "", "create nothing unless it is exactly what a dry run printed with this digest; needed with --orphans")
	f.BoolVar(&o.acting, "acts-on-control-plane", false, "promote one object that has an effect on the control plane itself; needs --expect")
	f.BoolVar(&o.orphans, "orphans", false, "promote objects of the cluster that this control plane manages and has no Work for")
	f.BoolVar(&o.withPolicy, "with-policy", false, "with --orphans, create a policy for each that propagates it to the cluster")
	f.BoolVar(&o.unrecorded, "unrecorded", false, "with --orphans, take also what this control plane has no record of; needs --with-policy")
	o.out.Flags(c)
	return c
}

// check returns an error for a command line that makes no sense.
func (o *options) check(args []string, changed func(flag string) bool) error {
	switch {
	case o.cluster == "":
		return cli.UsageErrorf("promote needs the cluster of the object\nname it with --cluster")
	case !o.orphans && len(args) == 0:
		return cli.UsageErrorf("promote needs either an object or --orphans")
	case len(args) == 1 && strings.Count(args[0], "/") != 1 || len(args) == 2 && strings.Contains(args[0]+args[1], "/"):
		return cli.UsageErrorf("promote takes one object\nname it as TYPE/NAME, such as deployment/nginx")
	case o.acting && len(args) == 0:
		return cli.UsageErrorf("--acts-on-control-plane is for one object\nname it as TYPE/NAME")
	case o.unrecorded && !o.withPolicy:
		return cli.UsageErrorf("--unrecorded needs --with-policy: what the control plane has no record of goes to its own cluster only")
	case o.orphans && !o.dryRun && o.expect == "":
		return cli.UsageErrorf("--orphans creates what a dry run printed\nrun it with --dry-run, read what it prints, and give the digest at the end with --expect")
	}
	for _, name := range []string{"with-policy", "unrecorded", "output"} {
		if !o.orphans && changed(name) {
			return cli.UsageErrorf("--%s needs --orphans", name)
		}
	}
	return o.out.Check()
}

// objectOf returns the kind and the name of arguments that were checked.
func objectOf(args []string) (kind, name string) {
	kind, name, _ = strings.Cut(strings.Join(args, "/"), "/")
	return kind, name
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
	request          *taken.Request
	cluster          string
	uid              types.UID
	template, policy *unstructured.Unstructured
	// acts is why the template has an effect on the control plane itself, "" if it has none.
	acts string
}

// read makes the promotion of an object.
func (o *options) read(ctx context.Context, m fleet.Member, hub *fleet.Access, args []string) (*promotion, error) {
	kind, name := objectOf(args)
	request, err := taken.Find(hub.Config, kind, m.Access.Namespace, name)
	if err != nil {
		return nil, err
	}
	live, err := dynamic.NewForConfig(m.Access.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	obj, err := get(ctx, live, request)
	if err != nil {
		return nil, err
	}
	return promotionOf(request, obj, m.Name, true)
}

// get reads the object of a request, and no other one.
func get(ctx context.Context, live dynamic.Interface, request *taken.Request) (*unstructured.Unstructured, error) {
	obj, err := request.In(live).Get(ctx, request.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj, request.Same(obj)
}

// promotionOf returns what is created because of an object.
func promotionOf(request *taken.Request, obj *unstructured.Unstructured, cluster string, withPolicy bool) (*promotion, error) {
	template, err := templateOf(obj)
	if err != nil {
		return nil, err
	}
	p := &promotion{request: request, cluster: cluster, uid: obj.GetUID(), template: template, acts: request.Acts(template)}
	if withPolicy {
		p.policy, err = policyFor(template, cluster)
	}
	return p, err
}

// objects are what is created, in the order in which it is.
func (p *promotion) objects() []*unstructured.Unstructured {
	if p.policy == nil {
		return []*unstructured.Unstructured{p.template}
	}
	return []*unstructured.Unstructured{p.policy, p.template}
}

func (p *promotion) digest() (string, error) {
	var values []any
	for _, obj := range p.objects() {
		values = append(values, obj.Object)
	}
	return taken.Digest(p.cluster, p.uid, values...)
}

// print writes the objects as YAML.
func (p *promotion) print(s cli.Streams) error {
	if p.acts != "" {
		fmt.Fprintf(s.Out, "# acts on the control plane: %s\n", p.acts)
	}
	for _, obj := range p.objects() {
		text, err := yaml.Marshal(obj.Object)
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		fmt.Fprintf(s.Out, "---\n%s", text)
	}
	return nil
}

// templateOf returns an object as a user would write it for the control plane.
func templateOf(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
func (o *options) run(ctx context.Context, s cli.Streams, hub *fleet.Access, p *promotion) error {
	digest, err := p.digest()
	if err != nil {
		return err
	}
	switch {
	case o.dryRun:
	case p.acts != "" && (!o.acting || o.expect == ""):
		return fmt.Errorf("%s %s acts on the control plane: %s\nread what --dry-run prints; to create it, add --acts-on-control-plane and the digest at the end with --expect",
			p.request.Mapping.GroupVersionKind.Kind, p.request.Name, p.acts)
	case o.expect != "":
		if err := taken.Expected(o.expect, digest); err != nil {
			return err
		}
	}
	if err := p.try(ctx, hub); err != nil {
		return err
	}
	if o.dryRun || p.acts != "" {
		if err := p.print(s); err != nil {
			return err
		}
	}
	if o.dryRun {
		sayDigest(s, digest)
		return nil
	}
	if err := p.create(ctx, hub); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s %s is on the control plane, with the %s %s\n", p.template.GetKind(), p.template.GetName(), p.policy.GetKind(), p.policy.GetName())
	return nil
}

// sayDigest prints how exactly that is created which a dry run printed.
func sayDigest(s cli.Streams, digest string) {
	fmt.Fprintf(s.Err, "to create exactly this: --expect %s\n", digest)
}

// try has the control plane check what would be created.
func (p *promotion) try(ctx context.Context, hub *fleet.Access) error {
	for _, obj := range p.objects() {
		if _, err := p.createOne(ctx, hub, obj, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			return err
		}
	}
	return nil
}

// create creates the policy, if there is one, and then the template: without it, that would go where other policies send it.
func (p *promotion) create(ctx context.Context, hub *fleet.Access) error {
	var policy *unstructured.Unstructured
	for _, obj := range p.objects() {
		made, err := p.createOne(ctx, hub, obj, metav1.CreateOptions{})
		if err != nil && policy != nil {
			return errors.Join(err, p.undo(context.WithoutCancel(ctx), hub, policy))
		}
		if err != nil {
			return err
		}
		policy = made
	}
	return nil
}

// undo deletes the policy of a template that was not created.
func (p *promotion) undo(ctx context.Context, hub *fleet.Access, policy *unstructured.Unstructured) error {
	policies, err := resourceOf(hub, policy)
	if err != nil {
		return err
	}
	return policies.Delete(ctx, policy.GetName(), *metav1.NewPreconditionDeleteOptions(string(policy.GetUID())))
}

// createOne creates an object, and returns errors that state what to do.
func (p *promotion) createOne(ctx context.Context, hub *fleet.Access, obj *unstructured.Unstructured, options metav1.CreateOptions) (*unstructured.Unstructured, error) {
	to, err := resourceOf(hub, obj)
	if err != nil {
		return nil, err
	}
	made, err := to.Create(ctx, obj, options)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("%w on the control plane\nchange it there", err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w on the control plane\ncreate it with 'kubectl create namespace %s', which creates it in every cluster", err, p.request.Namespace)
	case err != nil:
		return nil, fmt.Errorf("creating %s on the control plane: %w", obj.GetKind(), err)
	}
	return made, nil
}

// await returns when the object in the member is adopted.
func (p *promotion) await(ctx context.Context, s cli.Streams, m fleet.Member, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client, err := dynamic.NewForConfig(m.Access.Config)
	if err != nil {
		return fmt.Errorf("connecting to cluster %s: %w", m.Name, err)
	}
	objects := p.request.In(client)
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

// resourceOf is a client of the control plane for the kind of an object.
func resourceOf(hub *fleet.Access, obj *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(hub.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the control plane: %w", err)
	}
	kind := obj.GroupVersionKind()
	mapping, err := hub.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	if namespace := obj.GetNamespace(); namespace != "" {
		return client.Resource(mapping.Resource).Namespace(namespace), nil
	}
	return client.Resource(mapping.Resource), nil
}

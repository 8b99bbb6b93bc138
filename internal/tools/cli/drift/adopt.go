package drift

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/drifted"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/taken"
)

// newAdopt writes the values of a member to the template.
func newAdopt(s cli.Streams) *cobra.Command {
	var o options
	var a adoption
	c := &cobra.Command{
		Use:   "adopt TYPE/NAME --cluster CLUSTER",
		Short: "Write the values that a member has to the template",
		Long: `Writes the fields of an object that differ in one cluster to the template, with the values that the cluster has, so that all clusters of
the template get them. The object in the cluster is read through its proxy and the template is written, both as you. A field whose value in
this cluster comes from an override or from the division of replicas is not in the template, and is refused.

The owner of the cluster decides what the values are. --dry-run prints a digest of them; with --expect DIGEST exactly these are written, or
nothing. An object that has an effect on the control plane itself, such as a Role or anything cluster-scoped, needs --acts-on-control-plane and --expect, and is printed first.`,
		Example: `  flagship drift adopt deployment/nginx -n shop --cluster member3 --dry-run
  flagship drift adopt configmap/settings -n shop --cluster member3 --field /data/colour`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.cluster == "" {
				return cli.UsageErrorf("adopt needs --cluster: whose values the template gets")
			}
			kind, name, _ := strings.Cut(strings.Join(args, "/"), "/")
			return o.adopt(cmd.Context(), s, kind, name, a)
		},
	}
	o.hub.Flags(c)
	c.Flags().StringVarP(&o.namespace, "namespace", "n", metav1.NamespaceDefault, "namespace of the object")
	c.Flags().StringVar(&o.cluster, "cluster", "", "the cluster whose values the template gets")
	o.hub.CompleteFlag(c, "cluster")
	c.Flags().StringArrayVar(&a.fields, "field", nil, "only this field, by its path as flagship drift prints it; may be repeated")
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "show the change, and have the control plane check it, without writing")
	c.Flags().StringVar(&a.expect, "expect", "", "write nothing unless it is exactly what a dry run printed with this digest")
	c.Flags().BoolVar(&a.acting, "acts-on-control-plane", false, "adopt for an object that has an effect on the control plane itself; needs --expect")
	return c
}

// adoption is what the command line says.
type adoption struct {
	fields []string
	dryRun bool
	expect string
	acting bool
}

func (o *options) adopt(ctx context.Context, s cli.Streams, kind, name string, a adoption) error {
	cfg, err := o.hub.Config()
	if err != nil {
		return err
	}
	_, answer, err := o.ask(ctx, cfg, kind, name)
	if err != nil {
		return err
	}
	fields, err := chosen(answer.Status.Objects, a.fields)
	if err != nil {
		return fmt.Errorf("%w\nshow what differs: flagship drift %s/%s -n %s --cluster %s", err, kind, name, o.namespace, o.cluster)
	}
	hub, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	inMember := answer.Status.Objects[0].Object
	request, err := taken.Find(cfg, kind, o.namespace, name)
	if err != nil {
		return err
	}
	if inMember.Kind != request.Mapping.GroupVersionKind.Kind || inMember.Namespace != request.Namespace || inMember.Name != name {
		return fmt.Errorf("what differs is known of %s %s/%s, not of the object that is named", inMember.Kind, inMember.Namespace, inMember.Name)
	}
	live, err := readMember(ctx, cfg, o.cluster, func(member dynamic.Interface) (*unstructured.Unstructured, error) {
		return request.In(member).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		return err
	}
	if err := request.Same(live); err != nil {
		return err
	}
	if hidden := answer.Status.Objects[0].ValuesHidden; hidden != "" { // nor is it known whether an override sets them
		return fmt.Errorf("%s\nrun the command again: the object in the cluster can be read now", hidden)
	}
	templates := request.In(hub)
	template, err := templates.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the template: %w", err)
	}
	changed, report, err := adopted(template, live, fields)
	if err != nil {
		return err
	}
	digest, err := taken.Digest(o.cluster, live.GetUID(), template.GetUID(), changed.Object)
	if err != nil {
		return err
	}
	acts := request.Acts(changed)
	switch {
	case a.dryRun:
	case acts != "" && (!a.acting || a.expect == ""):
		return fmt.Errorf("%s %s acts on the control plane: %s\nread what --dry-run prints; to write it, add --acts-on-control-plane and the digest at the end with --expect", changed.GetKind(), name, acts)
	case a.expect != "":
		if err := taken.Expected(a.expect, digest); err != nil {
			return err
		}
	}
	if acts != "" {
		text, err := yaml.Marshal(changed.Object)
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		fmt.Fprintf(s.Out, "# acts on the control plane: %s\n%s", acts, text)
	}
	options, end := metav1.UpdateOptions{FieldManager: fieldManager}, "the template has these values: all its clusters get them\n"
	if a.dryRun {
		options.DryRun, end = []string{metav1.DryRunAll}, "nothing was written\n"
	}
	if _, err := templates.Update(ctx, changed, options); err != nil {
		return fmt.Errorf("writing the template: %w", err)
	}
	if _, err := fmt.Fprint(s.Out, report+end); err != nil || !a.dryRun {
		return err
	}
	_, err = fmt.Fprintf(s.Err, "to write exactly this: --expect %s\n", digest)
	return err
}

// readMember reads from a member through the proxy of its cluster.
func readMember(ctx context.Context, cfg *rest.Config, cluster string, read func(dynamic.Interface) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	proxied := rest.CopyConfig(cfg)
	proxied.Host = strings.TrimSuffix(proxied.Host, "/") + fmt.Sprintf("/apis/%s/%s/%s/proxy", clusterv1alpha1.GroupVersion, clusterv1alpha1.ResourcePluralCluster, url.PathEscape(cluster))
	member, err := dynamic.NewForConfig(proxied)
	if err != nil {
		return nil, fmt.Errorf("making a client of cluster %s: %w", cluster, err)
	}
	live, err := read(member)
	if err != nil {
		return nil, fmt.Errorf("reading the object in cluster %s: %w", cluster, err)
	}
	return live, nil
}

// chosen returns the fields of the one object of an answer that are to be adopted: those of these paths, all without.
func chosen(objects []fleetv1alpha1.DriftedObject, paths []string) ([]fleetv1alpha1.DriftedField, error) {
	var fields []fleetv1alpha1.DriftedField
	if len(objects) == 1 {
		fields = slices.DeleteFunc(slices.Clone(objects[0].Fields), func(f fleetv1alpha1.DriftedField) bool { return f.Outcome == fleetv1alpha1.DriftCreatedAgain })
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("no field of the object is known to differ there")
	}
	if len(paths) == 0 {
		return fields, nil
	}
	var found []fleetv1alpha1.DriftedField
	for _, path := range paths {
		at := slices.IndexFunc(fields, func(f fleetv1alpha1.DriftedField) bool { return f.Path == path })
		if at < 0 {
			return nil, fmt.Errorf("the field %s is not known to differ there", path)
		}
		found = append(found, fields[at])
	}
	return found, nil
}

// adopted returns a template with the values that a member has in fields, and a line about each that changes.
func adopted(template, live *unstructured.Unstructured, fields []fleetv1alpha1.DriftedField) (changed *unstructured.Unstructured, report string, err error) {
	secret := template.GetKind() == "Secret" && template.GetAPIVersion() == "v1"
	changed = template
	for _, field := range fields {
		was, had := drifted.ValuesAt(template, []string{field.Path})[field.Path]
		is, has := drifted.ValuesAt(live, []string{field.Path})[field.Path]
		if had == has && reflect.DeepEqual(was, is) { // the texts are shortened, and those of Secrets are all the same
			continue
		}
		before, after := drift.Text(was, had, secret), drift.Text(is, has, secret)
		if field.Overridden {
			return nil, "", fmt.Errorf("%s is %s in the template and %s in what the cluster is to have: an override, or the division of replicas, sets it there\nchange that instead, or choose others with --field",
				field.Path, orNothing(before), orNothing(field.Wanted))
		}
		next, ok := drifted.Graft(changed, live, field.Path)
		if !ok {
			return nil, "", fmt.Errorf("%s has no place in the template\nedit the template, or choose others with --field", field.Path)
		}
		changed = next
		report += clipped(fmt.Sprintf("%s: %s → %s", field.Path, orNothing(before), orNothing(after))) + "\n"
	}
	if changed == template {
		return nil, "", fmt.Errorf("the cluster has the values of the template now\nwhat was put back is not in the cluster any more: set flagship.io/drift to Report or Pause in the policy")
	}
	return changed, report, nil
}

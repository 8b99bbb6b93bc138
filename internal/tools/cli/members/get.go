package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/cmd/get"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/apply"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/logs"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/promote"
)

// Commands are those of this package.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{
		newGetCommand(s), newDescribeCommand(s), logs.NewCommand(s), newTopCommand(s), newEventsCommand(s),
		newExecCommand(s), newAttachCommand(s), newPortForwardCommand(s), promote.NewCommand(s), apply.NewCommand(s),
	}
}

// getOptions are the flags of get.
type getOptions struct {
	fleet.Fleet
	fleet.Selection
	print *get.PrintFlags
	watch bool
	// order is a value by which rows are sorted if the command line names no field; nil for none.
	order func(*unstructured.Unstructured) string
}

func newGetCommand(s cli.Streams) *cobra.Command {
	o := &getOptions{print: get.NewGetPrintFlags()}
	c := &cobra.Command{
		Use:   "get (TYPE[.VERSION][.GROUP] [NAME | -l label] | TYPE/NAME ...)",
		Short: "List objects of all members",
		Long: `Lists objects of members as kubectl get does those of one cluster, with the column CLUSTER. Rows are sorted by namespace, name and
cluster. Objects that are printed as JSON, YAML or with a template have the cluster in the annotation
` + clusterv1alpha1.CachedFromClusterAnnotation + `; -o name prints the cluster before the name.

A cluster that does not answer is one line on stderr and the exit code 1; the other clusters are printed.`,
		Example: `  flagship get deployments
  flagship get pods -A -l app=nginx --clusters member1,member2 -o wide
  flagship get deployment/nginx -w
  flagship get pods --sort-by .status.startTime`,
		Args: cli.AtLeast(1, "the kind of the objects"),
		RunE: func(cmd *cobra.Command, args []string) error {
			members, err := o.Members(cmd.Context())
			if err != nil {
				return err
			}
			if o.watch {
				return o.follow(cmd.Context(), s, members, args)
			}
			return o.run(s, members, args)
		},
	}
	o.Fleet.Flags(c)
	o.Selection.Flags(c)
	o.print.AddFlags(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "print changes after the list, until Ctrl-C")
	return c
}

// asTables is true for the formats that print columns of the server.
func (o *getOptions) asTables() bool {
	return (*o.print.OutputFormat == "" && *o.print.TemplateFlags.TemplateArgument == "") || *o.print.OutputFormat == "wide"
}

// transform requests tables, and with them whole objects where rows are sorted by a field.
func (o *getOptions) transform(r *rest.Request) {
	if !o.asTables() {
		return
	}
	r.SetHeader("Accept", fmt.Sprintf("application/json;as=Table;v=%s;g=%s,application/json", metav1.SchemeGroupVersion.Version, metav1.GroupName))
	if *o.print.HumanReadableFlags.SortBy != "" || o.order != nil {
		r.Param("includeObject", "Object")
	}
}

// found is what a cluster returned for the arguments.
type found struct {
	infos []*resource.Info
	// single is true if the arguments name one object.
	single bool
}

const chunkSize = 500

func (o *getOptions) run(s cli.Streams, members []fleet.Member, args []string) error {
	answers := fleet.FromEach(members, func(m fleet.Member) (found, error) {
		f := found{}
		result := o.Builder(m).RequestChunksOf(chunkSize).ResourceTypeOrNameArgs(true, args...).Flatten().TransformRequests(o.transform).Do()
		infos, err := result.IntoSingleItemImplied(&f.single).Infos()
		f.infos = infos
		return f, err
	})
	kinds := byKind(answers)
	for _, k := range kinds {
		if field := *o.print.HumanReadableFlags.SortBy; field == "" && o.order != nil {
			k.sortBy(o.order)
		} else if err := k.sort(field); err != nil {
			return cli.UsageErrorf("--sort-by: %w", err)
		}
	}
	var err error
	if o.asTables() {
		err = o.printTables(s, kinds)
	} else {
		err = o.printObjects(s, kinds, len(members) == 1 && answers[0].Value.single)
	}
	if err != nil {
		return err
	}
	err = fleet.Failures(s, answers)
	if err == nil && len(kinds) == 0 {
		fmt.Fprintln(s.Err, "No resources found")
	}
	return err
}

// ofKind is the table of one kind.
type ofKind struct {
	table
	kind       schema.GroupKind
	namespaced bool
}

// byKind sorts what the clusters returned into tables, in the order of the arguments. A cluster whose answer cannot be read has failed.
func byKind(answers []fleet.Answer[found]) []*ofKind {
	var kinds []*ofKind
	for n, a := range answers {
		for _, info := range a.Value.infos {
			rows, err := asTable(info.Object)
			if err != nil {
				answers[n].Err = err
				break
			}
			if len(rows.Rows) == 0 {
				continue
			}
			kind := info.Mapping.GroupVersionKind.GroupKind()
			i := slices.IndexFunc(kinds, func(k *ofKind) bool { return k.kind == kind })
			if i < 0 {
				i = len(kinds)
				kinds = append(kinds, &ofKind{kind: kind, namespaced: info.Namespaced()})
			}
			kinds[i].add(a.Cluster, rows)
		}
	}
	return kinds
}

// printer returns that of the output format, for objects of a kind.
func (o *getOptions) printer(kind schema.GroupKind, namespaced, withKind bool) (printers.ResourcePrinter, error) {
	flags := o.print.HumanReadableFlags
	flags.SetKind(kind)
	flags.WithNamespace = namespaced && o.AllNamespaces
	show := *flags.ShowKind || withKind
	defer func(before bool) { *flags.ShowKind = before }(*flags.ShowKind)
	*flags.ShowKind = show
	p, err := o.print.ToPrinter()
	if err != nil {
		return nil, cli.UsageErrorf("%w", err)
	}
	return p, nil
}

func (o *getOptions) printTables(s cli.Streams, kinds []*ofKind) error {
	for i, k := range kinds {
		if i > 0 {
			s.Line("")
		}
		p, err := o.printer(k.kind, k.namespaced, len(kinds) > 1)
		if err != nil {
			return err
		}
		if err := p.PrintObj(k.print(), s.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

// printObjects prints all objects as one list, or the only one that the command line names.
func (o *getOptions) printObjects(s cli.Streams, kinds []*ofKind, single bool) error {
	p, err := o.printer(schema.GroupKind{}, false, false)
	if err != nil {
		return err
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{}}}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("List"))
	for _, k := range kinds {
		for _, r := range k.rows {
			if *o.print.OutputFormat == "name" {
				if err := printObject(s, p, *o.print.OutputFormat, r.cluster, r.object); err != nil {
					return err
				}
				continue
			}
			mark(r.object, r.cluster)
			list.Items = append(list.Items, *r.object)
		}
	}
	var obj runtime.Object = list
	switch {
	case *o.print.OutputFormat == "name", single && len(list.Items) == 0:
		return nil
	case single && len(list.Items) == 1:
		obj = &list.Items[0]
	}
	if err := p.PrintObj(obj, s.Out); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func printObject(s cli.Streams, p printers.ResourcePrinter, format, cluster string, obj *unstructured.Unstructured) error {
	var printed runtime.Object = obj
	if format == "name" {
		fmt.Fprint(s.Out, cluster+" ")
		line := named(obj)
		line.APIVersion, line.Kind = cli.Printable(obj.GetAPIVersion()), cli.Printable(obj.GetKind())
		printed = line
	} else {
		mark(obj, cluster)
	}
	if err := p.PrintObj(printed, s.Out); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// mark writes the origin into an object that is printed. What the member wrote there does not count.
func mark(obj *unstructured.Unstructured, cluster string) {
	if err := unstructured.SetNestedField(obj.Object, cluster, "metadata", "annotations", clusterv1alpha1.CachedFromClusterAnnotation); err != nil {
		obj.SetAnnotations(map[string]string{clusterv1alpha1.CachedFromClusterAnnotation: cluster})
	}
}

// oneType splits the arguments of a watch into a kind and a name, which may be missing.
func oneType(args []string) (kind, name string, err error) {
	switch {
	case len(args) == 1 && strings.Count(args[0], "/") == 1:
		kind, name, _ = strings.Cut(args[0], "/")
	case len(args) == 1 && !strings.Contains(args[0], "/"):
		kind = args[0]
	case len(args) == 2 && !strings.Contains(args[0]+args[1], "/"):
		kind, name = args[0], args[1]
	}
	if kind == "" || strings.Contains(kind, ",") {
		return "", "", cli.UsageErrorf("--watch follows one kind or one object of it\nname them as in 'flagship get deployment/nginx -w'")
	}
	return kind, name, nil
}

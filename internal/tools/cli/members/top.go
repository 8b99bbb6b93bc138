package members

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// topOptions are the flags of top.
type topOptions struct {
	fleet.Fleet
	fleet.Selection
	sortBy string
}

func newTopCommand(s cli.Streams) *cobra.Command {
	c := &cobra.Command{
		Use:   "top",
		Short: "Show what nodes and pods of all members use",
		Example: `  flagship top nodes
  flagship top pods -A --sort-by cpu`,
	}
	c.AddCommand(
		topCommand(s, "node", "nodes", "Show what nodes of all members use, and the share of what they have", topNodes),
		topCommand(s, "pod", "pods", "Show what pods of all members use", topPods),
	)
	return c
}

func topCommand(s cli.Streams, use, alias, short string, read func(context.Context, fleet.Member, *topOptions) ([]usage, error)) *cobra.Command {
	o := &topOptions{}
	c := &cobra.Command{
		Use:     use + " [NAME | -l label]",
		Aliases: []string{alias},
		Short:   short,
		Long:    short + ", as their metrics API (metrics.k8s.io) reports it.",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"", "cpu", "memory"}, o.sortBy) {
				return cli.UsageErrorf("--sort-by %q is none of cpu, memory", o.sortBy)
			}
			name := ""
			if len(args) == 1 {
				if name = args[0]; o.Labels != "" {
					return cli.UsageErrorf("a name and a selector exclude each other")
				}
			}
			members, err := o.Members(cmd.Context())
			if err != nil {
				return err
			}
			answers := fleet.FromEach(members, func(m fleet.Member) ([]usage, error) { return read(cmd.Context(), m, o) })
			return o.print(s, answers, name)
		},
	}
	o.Fleet.Flags(c)
	c.Flags().StringVarP(&o.Labels, "selector", "l", "", "a label selector")
	c.Flags().StringVar(&o.sortBy, "sort-by", "", "cpu or memory, the largest first (default: by name)")
	if use == "pod" {
		c.Flags().BoolVarP(&o.AllNamespaces, "all-namespaces", "A", false, "in every namespace")
	}
	return c
}

// usage is what a node or a pod uses, and what a node has.
type usage struct {
	namespace, name string
	cpu, memory     resource.Quantity
	allocatable     corev1.ResourceList
}

func topNodes(ctx context.Context, m fleet.Member, o *topOptions) ([]usage, error) {
	metrics, err := metricsclient.NewForConfig(m.Access.Config)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(m.Access.Config)
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{LabelSelector: o.Labels}
	list, err := metrics.MetricsV1beta1().NodeMetricses().List(ctx, options)
	if err != nil {
		return nil, metricsError(err)
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, options)
	if err != nil {
		return nil, err
	}
	allocatable := map[string]corev1.ResourceList{}
	for i := range nodes.Items {
		allocatable[nodes.Items[i].Name] = nodes.Items[i].Status.Allocatable
	}
	out := []usage{}
	for _, n := range list.Items {
		out = append(out, usage{name: n.Name, cpu: *n.Usage.Cpu(), memory: *n.Usage.Memory(), allocatable: allocatable[n.Name]})
	}
	return out, nil
}

func topPods(ctx context.Context, m fleet.Member, o *topOptions) ([]usage, error) {
	metrics, err := metricsclient.NewForConfig(m.Access.Config)
	if err != nil {
		return nil, err
	}
	namespace := m.Access.Namespace
	if o.AllNamespaces {
		namespace = metav1.NamespaceAll
	}
	list, err := metrics.MetricsV1beta1().PodMetricses(namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Labels})
	if err != nil {
		return nil, metricsError(err)
	}
	out := []usage{}
	for _, pod := range list.Items {
		u := usage{namespace: pod.Namespace, name: pod.Name}
		for _, c := range pod.Containers {
			u.cpu.Add(*c.Usage.Cpu())
			u.memory.Add(*c.Usage.Memory())
		}
		out = append(out, u)
	}
	return out, nil
}

// metricsError is an error of its own: a cluster without the API is not one in which there is no such object.
func metricsError(err error) error {
	return fmt.Errorf("reading the metrics API: %s", fleet.OneLine(err))
}

// print prints the rows of all clusters, or those of one name.
func (o *topOptions) print(s cli.Streams, answers []fleet.Answer[[]usage], name string) error {
	var t table
	amount := map[*unstructured.Unstructured]usage{}
	for _, a := range answers {
		for _, u := range a.Value {
			if name != "" && u.name != name {
				continue
			}
			rows := u.table()
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetNamespace(u.namespace)
			object.SetName(u.name)
			rows.Rows[0].Object.Object = object
			t.add(a.Cluster, rows)
			amount[object] = u
		}
	}
	if err := t.sort(""); err != nil {
		return err
	}
	slices.SortStableFunc(t.rows, func(a, b row) int {
		x, y := amount[a.object], amount[b.object]
		switch o.sortBy {
		case "cpu":
			return y.cpu.Cmp(x.cpu)
		case "memory":
			return y.memory.Cmp(x.memory)
		}
		return 0
	})
	p := printers.NewTablePrinter(printers.PrintOptions{WithNamespace: o.AllNamespaces})
	if err := p.PrintObj(t.print(), s.Out); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	err := fleet.Failures(s, answers)
	switch {
	case err == nil && len(t.rows) == 0 && name != "":
		return fmt.Errorf("no cluster has metrics of %s", name)
	case err == nil && len(t.rows) == 0:
		fmt.Fprintln(s.Err, "No resources found")
	}
	return err
}

// table is one row, in the units of kubectl top.
func (u usage) table() *metav1.Table {
	text := func(name string) metav1.TableColumnDefinition {
		return metav1.TableColumnDefinition{Name: name, Type: "string"}
	}
	columns, cells := []metav1.TableColumnDefinition{text("Name")}, []any{u.name}
	add := func(name, unit, value string, used, has resource.Quantity) {
		columns, cells = append(columns, text(name+"("+unit+")")), append(cells, value)
		if u.allocatable != nil {
			share := "<unknown>"
			if has.MilliValue() > 0 {
				share = fmt.Sprintf("%d%%", int64(100*used.AsApproximateFloat64()/has.AsApproximateFloat64()))
			}
			columns, cells = append(columns, text(name+"(%)")), append(cells, share)
		}
	}
	add("CPU", "cores", fmt.Sprintf("%dm", u.cpu.MilliValue()), u.cpu, u.allocatable[corev1.ResourceCPU])
	add("Memory", "bytes", fmt.Sprintf("%dMi", u.memory.Value()/(1<<20)), u.memory, u.allocatable[corev1.ResourceMemory])
	return &metav1.Table{ColumnDefinitions: columns, Rows: []metav1.TableRow{{Cells: cells}}}
}

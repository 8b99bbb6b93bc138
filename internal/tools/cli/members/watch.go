package members

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// changes prints what the watches of all clusters return, one object at a time.
type changes struct {
	sync.Mutex
	s       cli.Streams
	o       *getOptions
	printer printers.ResourcePrinter
	// out aligns the columns of later rows with those of the first ones.
	out interface {
		io.Writer
		Flush() error
	}
	columns []metav1.TableColumnDefinition
}

// follow lists the objects of each cluster and prints each change until the context ends, which is no error. A watch that a server ends
// continues; a cluster whose watch fails is reported, and the others go on.
func (o *getOptions) follow(ctx context.Context, s cli.Streams, members []fleet.Member, args []string) error {
	if *o.print.HumanReadableFlags.SortBy != "" {
		return cli.UsageErrorf("--sort-by and --watch exclude each other: changes are printed as they come")
	}
	kind, name, err := oneType(args)
	if err != nil {
		return err
	}
	if name != "" {
		if o.Labels != "" || o.Fields != "" {
			return cli.UsageErrorf("a name and a selector exclude each other")
		}
		o.Fields = fields.OneTermEqualSelector("metadata.name", name).String()
	}
	c := &changes{s: s, o: o, out: printers.GetNewTabWriter(s.Out)}
	var stderr sync.Mutex
	answers := fleet.FromEach(members, func(m fleet.Member) (struct{}, error) {
		err := o.followOne(ctx, c, m, kind)
		if ctx.Err() != nil {
			return struct{}{}, nil
		}
		if err != nil && !fleet.IsAbsence(err) && len(members) > 1 {
			stderr.Lock()
			defer stderr.Unlock()
			fmt.Fprintf(s.Err, "cluster %s is not watched any more\n", m.Name)
		}
		return struct{}{}, err
	})
	return fleet.Failures(s, answers)
}

func (o *getOptions) followOne(ctx context.Context, c *changes, m fleet.Member, kind string) error {
	result := o.Builder(m).ResourceTypeOrNameArgs(true, kind).SingleResourceType().TransformRequests(o.transform).Do()
	infos, err := result.Infos()
	if err != nil {
		return err
	}
	if len(infos) != 1 {
		return fmt.Errorf("the list has %d parts", len(infos))
	}
	version, err := meta.NewAccessor().ResourceVersion(infos[0].Object)
	if err != nil {
		return fmt.Errorf("reading the list's resourceVersion: %w", err)
	}
	known, err := c.add(m.Name, infos[0], infos[0].Object, nil)
	for err == nil && ctx.Err() == nil {
		version, known, err = c.watchOne(m.Name, infos[0], result, version, known)
	}
	return err
}

// watchOne prints changes from a version until the server ends the watch. It returns where to go on, and the last columns: a server
// sends them with the first event only.
func (c *changes) watchOne(cluster string, info *resource.Info, result *resource.Result, version string, columns []metav1.TableColumnDefinition) (string, []metav1.TableColumnDefinition, error) {
	w, err := result.Watch(version)
	if err != nil {
		return "", nil, err
	}
	defer w.Stop()
	begun, events := time.Now(), 0
	for event := range w.ResultChan() {
		events++
		if event.Type == watch.Error {
			return "", nil, apierrors.FromObject(event.Object)
		}
		if columns, err = c.add(cluster, info, event.Object, columns); err != nil {
			return "", nil, err
		}
		if at, err := meta.NewAccessor().ResourceVersion(event.Object); err == nil && at != "" {
			version = at
		}
	}
	if events == 0 && time.Since(begun) < time.Second {
		return "", nil, errors.New("the server ended the watch at once")
	}
	return version, columns, nil
}

// add prints the objects of a list or an event and returns the columns that its server uses.
func (c *changes) add(cluster string, info *resource.Info, obj runtime.Object, columns []metav1.TableColumnDefinition) ([]metav1.TableColumnDefinition, error) {
	items := []runtime.Object{obj}
	if meta.IsListType(obj) {
		var err error
		if items, err = meta.ExtractList(obj); err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
	}
	c.Lock()
	defer c.Unlock()
	if c.printer == nil {
		p, err := c.o.printer(info.Mapping.GroupVersionKind.GroupKind(), info.Namespaced(), false)
		if err != nil {
			return nil, err
		}
		c.printer = p
	}
	for _, item := range items {
		if !c.o.asTables() {
			u, ok := item.(*unstructured.Unstructured)
			if !ok {
				return nil, fmt.Errorf("the server returned no object but %T", item)
			}
			if err := printObject(c.s, c.printer, *c.o.print.OutputFormat, cluster, u); err != nil {
				return nil, err
			}
			continue
		}
		t, err := asTable(item)
		if err != nil {
			return nil, err
		}
		if len(t.ColumnDefinitions) == 0 {
			t.ColumnDefinitions = columns
		}
		columns = t.ColumnDefinitions
		if err := c.printRows(cluster, t); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// printRows prints rows under the columns of the first cluster that had any, whatever the other clusters call theirs.
func (c *changes) printRows(cluster string, rows *metav1.Table) error {
	if len(rows.Rows) == 0 {
		return nil
	}
	if c.columns == nil {
		c.columns = rows.ColumnDefinitions
	}
	t := table{columns: c.columns}
	t.add(cluster, rows)
	t.columns = t.columns[:len(c.columns)]
	for i := range t.rows {
		t.rows[i].cells = t.rows[i].cells[:len(c.columns)]
	}
	if err := t.sort(""); err != nil {
		return err
	}
	if err := c.printer.PrintObj(t.print(), c.out); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return c.out.Flush()
}

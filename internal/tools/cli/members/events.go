package members

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

func newEventsCommand(s cli.Streams) *cobra.Command {
	o := &getOptions{print: get.NewGetPrintFlags()}
	var about string
	var types []string
	c := &cobra.Command{
		Use:   "events [--for TYPE/NAME]",
		Short: "List events of all members",
		Long:  "Lists events of members, the latest last, with the column CLUSTER.",
		Example: `  flagship events -A --types Warning
  flagship events --for deployment/nginx`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selectors, err := eventFields(o.Fields, about, types)
			if err != nil {
				return err
			}
			members, err := o.Members(cmd.Context())
			if err != nil {
				return err
			}
			o.Fields = selectors(func(resource string) string { return kindIn(members, resource) })
			if o.watch {
				return o.follow(cmd.Context(), s, members, []string{"events"})
			}
			o.order = lastSeen
			return o.run(s, members, []string{"events"})
		},
	}
	o.Fleet.Flags(c)
	o.Selection.Flags(c)
	o.print.AddFlags(c)
	c.Flags().StringVar(&about, "for", "", "only events about this object, as deployment/nginx")
	c.Flags().StringSliceVar(&types, "types", nil, "only events of these types: Normal, Warning")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "print new events after the list, until Ctrl-C")
	return c
}

// eventFields returns the field selector with what the flags select, for a function that finds the kind of a resource.
func eventFields(fields, about string, types []string) (func(kindOf func(resource string) string) string, error) {
	selectors := []string{}
	if fields != "" {
		selectors = append(selectors, fields)
	}
	resource, name, ok := strings.Cut(about, "/")
	if about != "" && (!ok || resource == "" || name == "" || strings.ContainsAny(about, ",=!")) {
		return nil, cli.UsageErrorf("--for %q is not TYPE/NAME\nname it as in --for deployment/nginx", about)
	}
	known := []string{"Normal", "Warning"}
	for _, t := range types {
		if !slices.Contains(known, t) {
			return nil, cli.UsageErrorf("--types %q is none of %s", t, strings.Join(known, ", "))
		}
	}
	if slices.Sort(types); len(slices.Compact(types)) == 1 {
		selectors = append(selectors, fmt.Sprintf("type=%s", types[0]))
	}
	return func(kindOf func(string) string) string {
		if about == "" {
			return strings.Join(selectors, ",")
		}
		return strings.Join(append(selectors, "involvedObject.kind="+kindOf(resource), "involvedObject.name="+name), ",")
	}, nil
}

// kindIn is the kind of a resource, or of its short name, in the first member that serves it; the text itself if none does.
func kindIn(members []fleet.Member, resource string) string {
	versioned, unversioned := schema.ParseResourceArg(resource)
	for _, m := range members {
		if versioned != nil {
			if found, err := m.Access.Mapper.KindFor(*versioned); err == nil {
				return found.Kind
			}
		}
		if found, err := m.Access.Mapper.KindFor(unversioned.WithVersion("")); err == nil {
			return found.Kind
		}
	}
	return resource
}

// lastSeen is when an event was last repeated, as text that sorts by time.
func lastSeen(event *unstructured.Unstructured) string {
	last := event.GetCreationTimestamp().Time
	for _, path := range [][]string{{"lastTimestamp"}, {"eventTime"}, {"series", "lastObservedTime"}} {
		text, _, _ := unstructured.NestedString(event.Object, path...)
		if at, err := time.Parse(time.RFC3339, text); err == nil && at.After(last) {
			last = at
		}
	}
	return last.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

package members

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/get"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func newEventsCommand(s cli.Streams) *cobra.Command {
	o := &getOptions{print: get.NewGetPrintFlags()}
	var about string
	var types []string
	c := &cobra.Command{
		Use:   "events [--for KIND/NAME]",
		Short: "List events of all members",
		Long:  "Lists events of members, the latest last, with the column CLUSTER.",
		Example: `  flagship events -A --types Warning
  flagship events --for Deployment/nginx`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selectors, err := eventFields(o.Fields, about, types)
			if err != nil {
				return err
			}
			o.Fields = selectors
			members, err := o.Members(cmd.Context())
			if err != nil {
				return err
			}
			if o.watch {
				return o.follow(cmd.Context(), s, members, []string{"events"})
			}
			sortBy := o.print.HumanReadableFlags.SortBy
			if *sortBy == "" {
				*sortBy = ".metadata.creationTimestamp"
			}
			return o.run(s, members, []string{"events"})
		},
	}
	o.Fleet.Flags(c)
	o.Selection.Flags(c)
	o.print.AddFlags(c)
	c.Flags().StringVar(&about, "for", "", "only events about this object, as Deployment/nginx")
	c.Flags().StringSliceVar(&types, "types", nil, "only events of these types: Normal, Warning")
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "print new events after the list, until Ctrl-C")
	return c
}

// eventFields adds what the flags select to a field selector.
func eventFields(fields, about string, types []string) (string, error) {
	selectors := []string{}
	if fields != "" {
		selectors = append(selectors, fields)
	}
	if about != "" {
		kind, name, ok := strings.Cut(about, "/")
		if !ok || kind == "" || name == "" || strings.ContainsAny(about, ",=!") {
			return "", cli.UsageErrorf("--for %q is not KIND/NAME\nname it as in --for Deployment/nginx", about)
		}
		selectors = append(selectors, "involvedObject.kind="+kind, "involvedObject.name="+name)
	}
	known := []string{"Normal", "Warning"}
	for _, t := range types {
		if !slices.Contains(known, t) {
			return "", cli.UsageErrorf("--types %q is none of %s", t, strings.Join(known, ", "))
		}
	}
	if slices.Sort(types); len(slices.Compact(types)) == 1 {
		selectors = append(selectors, fmt.Sprintf("type=%s", types[0]))
	}
	return strings.Join(selectors, ","), nil
}

package members

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	describecmd "k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/describe"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

func newDescribeCommand(s cli.Streams) *cobra.Command {
	var f fleet.Fleet
	flags := describecmd.NewDescribeFlags(nil, genericiooptions.IOStreams{})
	c := &cobra.Command{
		Use:   "describe (TYPE [NAME_PREFIX | -l label] | TYPE/NAME)",
		Short: "Show details of objects of all members",
		Long:  "Describes objects of members as kubectl describe does those of one cluster, with their events. The first line of each has its cluster.",
		Example: `  flagship describe deployment nginx
  flagship describe pods -l app=nginx --clusters member1,member2`,
		Args: cli.AtLeast(1, "the kind of the objects"),
		RunE: func(cmd *cobra.Command, args []string) error {
			members, err := f.Members(cmd.Context())
			if err != nil {
				return err
			}
			answers := fleet.FromEach(members, func(m fleet.Member) (string, error) { return describeIn(m, *flags, args) })
			printed := false
			for _, a := range answers {
				if a.Value == "" {
					continue
				}
				if printed {
					s.Line("\n")
				}
				fmt.Fprint(s.Out, a.Value)
				printed = true
			}
			err = fleet.Failures(s, answers)
			if err == nil && !printed {
				fmt.Fprintln(s.Err, "No resources found")
			}
			return err
		},
	}
	f.Flags(c)
	c.Flags().StringVarP(&flags.Selector, "selector", "l", "", "a label selector, as for kubectl describe")
	c.Flags().BoolVarP(&flags.AllNamespaces, "all-namespaces", "A", false, "in every namespace")
	return c
}

// describeIn returns the description of the objects of one cluster. The flags are a copy, since kubectl changes its settings.
func describeIn(m fleet.Member, flags describecmd.DescribeFlags, args []string) (string, error) {
	var out, notes bytes.Buffer
	flags.Factory, flags.IOStreams = m.Factory, genericiooptions.IOStreams{Out: &out, ErrOut: &notes}
	settings := *flags.DescriberSettings
	flags.DescriberSettings = &settings
	o, err := flags.ToOptions("flagship", args)
	if err != nil {
		return "", err
	}
	describer := o.Describer
	o.Describer = func(mapping *meta.RESTMapping) (describe.ResourceDescriber, error) {
		d, err := describer(mapping)
		return withCluster{d, m.Name}, err
	}
	err = o.Run()
	return out.String(), err
}

// withCluster is a describer that begins with the cluster.
type withCluster struct {
	describe.ResourceDescriber
	cluster string
}

// Describe implements describe.ResourceDescriber.
func (d withCluster) Describe(namespace, name string, settings describe.DescriberSettings) (string, error) {
	text, err := d.ResourceDescriber.Describe(namespace, name, settings)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Cluster:  %s\n%s", d.cluster, text), nil
}

package logs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	kubectllogs "k8s.io/kubectl/pkg/cmd/logs"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// NewCommand is the command logs.
func NewCommand(s cli.Streams) *cobra.Command {
	var f fleet.Fleet
	o := kubectllogs.NewLogsOptions(genericiooptions.IOStreams{ErrOut: io.Discard})
	c := &cobra.Command{
		Use:   "logs (POD | TYPE/NAME | -l label)",
		Short: "Print the logs of pods of all members",
		Long: `Prints the logs of a pod, or of all pods of a workload or a label selector, in every member that has them. Each line begins with the
cluster, the pod and the container. With --follow, lines are printed as they come until Ctrl-C, also from the pods of a workload or
selector that are created later, in every cluster. A pod that is named is followed to its end.`,
		Example: `  flagship logs -f deploy/nginx
  flagship logs deploy/nginx -n shop --clusters member1,member2 --tail 20
  flagship logs -l app=nginx --all-containers --since 1h`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && o.Selector == "" {
				return cli.UsageErrorf("logs needs a pod, a workload or a selector\nname it as in 'flagship logs deploy/nginx'")
			}
			members, err := f.Members(cmd.Context())
			if err != nil {
				return err
			}
			out := &lines{out: s.Out}
			if o.Follow {
				err = followLogs(cmd.Context(), s, cmd, *o, members, args, out)
			} else {
				err = fleet.Failures(s, fleet.FromEach(members, func(m fleet.Member) (struct{}, error) {
					return struct{}{}, logsIn(cmd.Context(), cmd, *o, m, args, out)
				}))
			}
			if cmd.Context().Err() != nil {
				return nil //nolint:nilerr // Ctrl-C is how logs that are followed end
			}
			return err
		},
	}
	f.Flags(c)
	o.AddFlags(c)
	for _, always := range []string{"all-pods", "prefix"} {
		_ = c.Flags().MarkHidden(always) // set in any case
	}
	return c
}

// logsIn prints the logs of one cluster, one after the other. The options are a copy.
func logsIn(ctx context.Context, cmd *cobra.Command, o kubectllogs.LogsOptions, m fleet.Member, args []string, out *lines) error {
	found, err := resolve(cmd, o, m, args)
	if err != nil {
		return err
	}
	return logsOf(ctx, found.options, m, out)
}

// logsOf prints the logs of the pods that exist in one cluster, each container's as one stream.
func logsOf(ctx context.Context, o kubectllogs.LogsOptions, m fleet.Member, out *lines) error {
	requests, err := o.AllPodLogsForObject(o.RESTClientGetter, o.Object, o.Options, o.GetPodTimeout, o.AllContainers)
	if err != nil {
		return err
	}
	if o.Follow && len(requests) > o.MaxFollowConcurrency {
		return fmt.Errorf("%d logs are more than --max-log-requests=%d allows to follow", len(requests), o.MaxFollowConcurrency)
	}
	var failed []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	read := func(ref corev1.ObjectReference, request rest.ResponseWrapper) {
		if err := o.ConsumeRequestFn(ctx, request, out.prefixed(prefixOf(m.Name, ref))); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, fmt.Errorf("pod %s: %w", ref.Name, err))
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(requests), byName) {
		if !o.Follow {
			read(ref, requests[ref])
			continue
		}
		wg.Go(func() { read(ref, requests[ref]) })
	}
	wg.Wait()
	return utilerrors.NewAggregate(failed)
}

// prefixOf is the beginning of each line of a log.
func prefixOf(cluster string, ref corev1.ObjectReference) string {
	return fmt.Sprintf("[%s/%s/%s] ", cluster, ref.Name, container(ref))
}

func byName(a, b corev1.ObjectReference) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.FieldPath, b.FieldPath))
}

// container returns the name in a path such as spec.containers{nginx}.
func container(ref corev1.ObjectReference) string {
	_, name, _ := strings.Cut(ref.FieldPath, "{")
	return strings.TrimSuffix(name, "}")
}

// lines is an output to which several logs are written, a whole line at a time.
type lines struct {
	sync.Mutex
	out io.Writer
}

// prefixed returns the writer of one log.
func (l *lines) prefixed(prefix string) io.Writer { return &log{l, prefix} }

type log struct {
	*lines
	prefix string
}

// Write is called once for each line, of which the last may have no end.
func (l *log) Write(line []byte) (int, error) {
	if len(line) == 0 {
		return 0, nil
	}
	l.Lock()
	defer l.Unlock()
	if _, err := l.out.Write(append([]byte(l.prefix), line...)); err != nil {
		return 0, err
	}
	if line[len(line)-1] != '\n' {
		if _, err := l.out.Write([]byte("\n")); err != nil {
			return 0, err
		}
	}
	return len(line), nil
}

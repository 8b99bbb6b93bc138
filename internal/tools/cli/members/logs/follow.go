package logs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	kubectllogs "k8s.io/kubectl/pkg/cmd/logs"
	"k8s.io/kubectl/pkg/polymorphichelpers"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/cli/members/fleet"
)

// podSelection is which pods a workload or a label selector has. Nil stands for a pod that was named.
type podSelection struct{ namespace, labels string }

// resolved is what the arguments mean in one cluster.
type resolved struct {
	options kubectllogs.LogsOptions
	pods    *podSelection
}

func resolve(cmd *cobra.Command, o kubectllogs.LogsOptions, m fleet.Member, args []string) (resolved, error) {
	o.AllPods = true
	if err := o.Complete(m.Factory, cmd, args); err != nil {
		return resolved{options: o}, err
	}
	if err := o.Validate(); err != nil {
		return resolved{options: o}, cli.UsageErrorf("%w", err)
	}
	if o.Selector != "" {
		return resolved{o, &podSelection{o.Namespace, o.Selector}}, nil
	}
	if _, named := o.Object.(*corev1.Pod); named {
		return resolved{options: o}, nil
	}
	namespace, selector, err := polymorphichelpers.SelectorsForObject(o.Object)
	if err != nil {
		return resolved{options: o}, fmt.Errorf("finding the pods of %T: %w", o.Object, err)
	}
	return resolved{o, &podSelection{namespace, selector.String()}}, nil
}

// followLogs follows the logs of the pods that exist and, of a workload or a selector, of those that are created later in any cluster,
// also in one that does not have the workload yet. It ends with the context, or when no cluster can be followed.
func followLogs(ctx context.Context, s cli.Streams, cmd *cobra.Command, o kubectllogs.LogsOptions, members []fleet.Member, args []string, out *lines) error {
	answers := fleet.FromEach(members, func(m fleet.Member) (resolved, error) { return resolve(cmd, o, m, args) })
	var pods *podSelection
	for _, a := range answers {
		if a.Err == nil && a.Value.pods != nil {
			pods = a.Value.pods
			break
		}
	}
	byName := map[string]fleet.Answer[resolved]{}
	for _, a := range answers {
		byName[a.Cluster] = a
	}
	return fleet.Failures(s, fleet.FromEach(members, func(m fleet.Member) (struct{}, error) {
		own := byName[m.Name]
		err := own.Err
		if err != nil && (pods == nil || !fleet.IsAbsence(err)) {
			out.note(s, m.Name, err, len(members) > 1)
			return struct{}{}, err
		}
		if pods == nil {
			return struct{}{}, logsOf(ctx, own.Value.options, m, out)
		}
		f := &podFollower{options: own.Value.options, member: m, out: out, streams: s, begun: map[instance]bool{}}
		if own.Value.pods == nil {
			f.selection = *pods
		} else {
			f.selection = *own.Value.pods
		}
		err = f.run(ctx)
		if ctx.Err() == nil {
			out.note(s, m.Name, err, len(members) > 1)
		}
		return struct{}{}, err
	}))
}

// instance is one run of a container.
type instance struct {
	pod       types.UID
	container string
	restarts  int32
}

// podFollower follows the pods of one cluster.
type podFollower struct {
	options   kubectllogs.LogsOptions
	selection podSelection
	member    fleet.Member
	out       *lines
	streams   cli.Streams

	mu      sync.Mutex
	begun   map[instance]bool
	open    int
	reading sync.WaitGroup
}

// run follows the pods until the context ends. A cluster that cannot be read at the start is a failure; later its pods are listed
// again until that succeeds.
func (f *podFollower) run(ctx context.Context) error {
	config, err := f.member.Factory.ToRESTConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	options := metav1.ListOptions{LabelSelector: f.selection.labels}
	present, err := client.CoreV1().Pods(f.selection.namespace).List(ctx, options)
	if err != nil {
		return err
	}
	first := 0
	for i := range present.Items {
		requests, err := f.requests(&present.Items[i], true)
		if err != nil {
			return err
		}
		first += len(requests)
	}
	if first > f.options.MaxFollowConcurrency {
		return fmt.Errorf("%d logs are more than --max-log-requests=%d allows to follow", first, f.options.MaxFollowConcurrency)
	}
	known := map[types.UID]bool{}
	for i := range present.Items {
		known[present.Items[i].UID] = true
		f.pod(ctx, &present.Items[i], true)
	}
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = options.LabelSelector
			return client.CoreV1().Pods(f.selection.namespace).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = options.LabelSelector
			return client.CoreV1().Pods(f.selection.namespace).Watch(ctx, o)
		},
	}, &corev1.Pod{}, 0, cache.Indexers{})
	changed := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			f.pod(ctx, pod, known[pod.UID])
		}
	}
	// It would be logged as by a server.
	silent := func(context.Context, *cache.Reflector, error) {}
	err = informer.SetWatchErrorHandlerWithContext(silent)
	if err == nil {
		_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, pod any) { changed(pod) }})
	}
	if err != nil {
		return fmt.Errorf("following pods: %w", err)
	}
	informer.RunWithContext(ctx)
	f.reading.Wait()
	return nil
}

// requests are those for the logs of a pod. A pod that is created later is read from its beginning.
func (f *podFollower) requests(pod *corev1.Pod, first bool) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
	options, ok := f.options.Options.(*corev1.PodLogOptions)
	if !ok {
		return nil, fmt.Errorf("the options of a log are a %T", f.options.Options)
	}
	if !first {
		options = options.DeepCopy()
		options.TailLines, options.SinceSeconds, options.SinceTime = nil, nil, nil
	}
	return polymorphichelpers.AllPodLogsForObjectFn(f.member.Factory, pod, options, f.options.GetPodTimeout, f.options.AllContainers)
}

// pod follows the containers of a pod that have begun to run and are not followed yet.
func (f *podFollower) pod(ctx context.Context, pod *corev1.Pod, first bool) {
	for _, started := range runs(pod) {
		f.mu.Lock()
		begun := f.begun[started]
		f.mu.Unlock()
		if begun {
			continue
		}
		requests, err := f.requests(pod, first && started.restarts == 0)
		if err != nil {
			f.out.note(f.streams, f.member.Name, fmt.Errorf("pod %s: %w", pod.Name, err), true)
			return
		}
		for _, ref := range slices.SortedFunc(maps.Keys(requests), byName) {
			if container(ref) == started.container {
				f.follow(ctx, started, ref, requests[ref])
			}
		}
	}
}

// runs are the containers of a pod that have a log.
func runs(pod *corev1.Pod) (found []instance) {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if status.State.Running != nil || status.State.Terminated != nil {
			found = append(found, instance{pod.UID, status.Name, status.RestartCount})
		}
	}
	return found
}

// follow reads one log until it ends.
func (f *podFollower) follow(ctx context.Context, started instance, ref corev1.ObjectReference, request rest.ResponseWrapper) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun[started] = true
	if f.open >= f.options.MaxFollowConcurrency {
		f.out.note(f.streams, f.member.Name, fmt.Errorf("pod %s is not followed: --max-log-requests=%d logs are followed already", ref.Name, f.options.MaxFollowConcurrency), true)
		return
	}
	f.open++
	f.reading.Go(func() {
		err := f.options.ConsumeRequestFn(ctx, request, f.out.prefixed(prefixOf(f.member.Name, ref)))
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
		if ctx.Err() == nil && err != nil {
			f.out.note(f.streams, f.member.Name, fmt.Errorf("pod %s: %w", ref.Name, err), true)
		}
	})
}

// note prints at once what fails in one cluster while others are followed.
func (l *lines) note(s cli.Streams, cluster string, err error, others bool) {
	if err == nil || !others || errors.Is(err, context.Canceled) {
		return
	}
	l.Lock()
	defer l.Unlock()
	fmt.Fprintf(s.Err, "cluster %s: %s\n", cluster, fleet.OneLine(err))
}

package noise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"
)

// theirs is a namespace of the member in which the control plane has nothing; in fleet.Namespace it has an object.
const theirs = "theirs"

// settling is how long the control plane rests before a phase, so that what was created for it is not part of it.
const settling = 30 * time.Second

// Options choose what to measure. All fields are required.
type Options struct {
	// Binary is the flagship binary to start.
	Binary string
	// Pods is how many pods there are, none of them managed, and Rate how many Events about them a second.
	Pods, Rate int
	// Period is how long each phase is.
	Period time.Duration
	// Log receives the progress.
	Log io.Writer
}

// Result is one phase.
type Result struct {
	Phase string `json:"phase"`
	// Events is how many were made.
	Events int `json:"events"`
	// CPU is that of the control plane, in percent of one core.
	CPU float64 `json:"cpuPercent"`
	// Writes are requests that change objects of the control plane.
	Writes float64 `json:"writes"`
	// Transferred is the size of the Events in the watch of the member, in bytes.
	Transferred float64 `json:"transferredBytes"`
}

// Header has the columns of Row.
const Header = "PHASE EVENTS CPU WRITES TRANSFERRED"

// Row is the result as a row of a table.
func (r Result) Row() []string {
	return []string{
		r.Phase, strconv.Itoa(r.Events), fmt.Sprintf("%.1f %%", r.CPU), strconv.FormatFloat(r.Writes, 'f', -1, 64), fmt.Sprintf("%.1f kB", r.Transferred/1000),
	}
}

// bench is a control plane with one member.
type bench struct {
	Options
	*fleet.Fleet
	hub, member kubernetes.Interface
}

// Run measures an idle control plane, and then one whose member has Events about pods that are not managed: of the type Normal, of the
// type Warning in a namespace without propagated objects, and of that type in one with such objects.
func Run(ctx context.Context, o Options) (_ []Result, err error) {
	f, err := fleet.Start(ctx, o.Binary, 1, o.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	b := &bench{Options: o, Fleet: f}
	if b.hub, err = kubernetes.NewForConfig(f.Hub); err != nil {
		return nil, fmt.Errorf("connecting to the control plane: %w", err)
	}
	if b.member, err = kubernetes.NewForConfig(f.Members["member1"]); err != nil {
		return nil, fmt.Errorf("connecting to the member: %w", err)
	}
	if err := b.propagate(ctx); err != nil {
		return nil, err
	}
	for _, namespace := range []string{theirs, fleet.Namespace} {
		if err := b.pods(ctx, namespace); err != nil {
			return nil, err
		}
	}
	var results []Result
	for _, phase := range []struct{ name, namespace, kind string }{
		{"idle", "", ""},
		{"Normal", theirs, corev1.EventTypeNormal},
		{"Warning,elsewhere", theirs, corev1.EventTypeWarning},
		{"Warning,beside-ours", fleet.Namespace, corev1.EventTypeWarning},
	} {
		r, err := b.phase(ctx, phase.name, phase.namespace, phase.kind)
		if err != nil {
			return results, err
		}
		fmt.Fprintf(o.Log, "  %s: done\n", phase.name)
		results = append(results, r)
	}
	return results, nil
}

// propagate has the member get a namespace with one object of the control plane, and the other namespace.
func (b *bench) propagate(ctx context.Context) error {
	policies, err := dynamic.NewForConfig(b.Hub)
	if err != nil {
		return fmt.Errorf("connecting to the control plane: %w", err)
	}
	ours := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet.Namespace}}
	if _, err := b.hub.CoreV1().Namespaces().Create(ctx, ours, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	policy := fleet.Duplicated("noise", fleet.SelectConfigMaps())
	if _, err := policies.Resource(fleet.Policies).Namespace(fleet.Namespace).Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the policy: %w", err)
	}
	if _, err := b.hub.CoreV1().ConfigMaps(fleet.Namespace).Create(ctx, fleet.ConfigMap(fleet.ConfigMapName(0)), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the ConfigMap: %w", err)
	}
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		list, err := b.member.CoreV1().ConfigMaps(fleet.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + fleet.ConfigMapName(0)})
		return err == nil && len(list.Items) == 1, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the object in the member: %w", err)
	}
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: theirs}}
	if _, err := b.member.CoreV1().Namespaces().Create(ctx, other, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the namespace of the member: %w", err)
	}
	return nil
}

// each calls do for every pod, eight at a time.
func (b *bench) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i := range b.Pods {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

func podName(i int) string { return fmt.Sprintf("noisy-%04d", i) }

// pods makes the pods of a namespace, and an Event of each type about each.
func (b *bench) pods(ctx context.Context, namespace string) error {
	return b.each(ctx, func(ctx context.Context, i int) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName(i)}}
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "noisy:1"}}
		made, err := b.member.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("creating a pod: %w", err)
		}
		for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning} {
			now := metav1.Now()
			_, err := b.member.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: podName(i) + "." + kind},
				InvolvedObject: corev1.ObjectReference{
					APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: made.Name, UID: made.UID, FieldPath: "spec.containers{main}",
				},
				Type: kind, Reason: "BackOff", Message: `Back-off restarting failed container main in pod ` + made.Name + "_" + namespace,
				Source: corev1.EventSource{Component: "kubelet", Host: "node-1"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
			}, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("creating an Event: %w", err)
			}
		}
		return nil
	})
}

// phase measures one period, in which the Events of a type and namespace are repeated as kubelets repeat them; none without a namespace.
func (b *bench) phase(ctx context.Context, name, namespace, kind string) (Result, error) {
	if err := fleet.Pause(ctx, settling); err != nil {
		return Result{}, err
	}
	before, err := b.read(ctx)
	if err != nil {
		return Result{}, err
	}
	began := time.Now()
	made := 0
	for i := 0; namespace != "" && time.Since(began) < b.Period; i++ {
		// Ten times a second, a tenth of the rate.
		group, repeating := errgroup.WithContext(ctx)
		for k := range max(b.Rate/10, 1) {
			group.Go(func() error { return b.repeat(repeating, namespace, podName((made+k)%b.Pods)+"."+kind, i) })
		}
		if err := group.Wait(); err != nil {
			return Result{}, err
		}
		made += max(b.Rate/10, 1)
		if err := fleet.Pause(ctx, time.Until(began.Add(time.Duration(i+1)*100*time.Millisecond))); err != nil {
			return Result{}, err
		}
	}
	if err := fleet.Pause(ctx, time.Until(began.Add(b.Period))); err != nil {
		return Result{}, err
	}
	after, err := b.read(ctx)
	if err != nil {
		return Result{}, err
	}
	return Result{
		Phase: name, Events: made, CPU: 100 * (after.cpu - before.cpu).Seconds() / time.Since(began).Seconds(),
		Writes: after.writes.Since(before.writes).Total(), Transferred: after.transferred - before.transferred,
	}, nil
}

// repeat makes an Event one of now, with a higher count.
func (b *bench) repeat(ctx context.Context, namespace, name string, count int) error {
	patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, count+2, time.Now().UTC().Format(time.RFC3339))
	if _, err := b.member.CoreV1().Events(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("repeating an Event: %w", err)
	}
	return nil
}

// reading is what was counted so far.
type reading struct {
	cpu         time.Duration
	writes      fleet.Writes
	transferred float64
}

var watched = regexp.MustCompile(`(?m)^apiserver_watch_events_sizes_sum\{group="",resource="events",version="v1"\} (\S+)$`)

func (b *bench) read(ctx context.Context) (r reading, err error) {
	usage, err := b.Usage()
	if err != nil {
		return r, err
	}
	r.cpu = usage.Cpu
	if r.writes, err = fleet.CountWrites(ctx, b.hub); err != nil {
		return r, err
	}
	text, err := b.member.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return r, fmt.Errorf("reading the counters of the member: %w", err)
	}
	if found := watched.FindSubmatch(text); found != nil { // there is none before the first Event
		if r.transferred, err = strconv.ParseFloat(string(found[1]), 64); err != nil {
			return r, fmt.Errorf("reading %q: %w", found[0], err)
		}
	}
	return r, nil
}

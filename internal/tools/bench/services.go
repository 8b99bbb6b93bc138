package bench

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/flagship-k8s/flagship/internal/tools/bench/fleet"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

const (
	manyServices     = 100
	serviceMembers   = 3
	serviceEndpoints = 100 // in each provider
	serviceSamples   = 200
)

var multiClusterServices = schema.GroupVersionResource{
	Group: networkingv1alpha1.GroupName, Version: "v1alpha1", Resource: networkingv1alpha1.ResourcePluralMultiClusterService,
}

// ServiceResult is what multi-cluster services cost. Times are seconds.
type ServiceResult struct {
	Services  int
	Members   int
	Endpoints int
	Changes   int
	// SetUp is from the first Service until every slice is in every other member.
	SetUp float64
	// P50, P95 and Slowest are from a pod becoming ready in a provider's slice until the slices of all consumers say so.
	P50     float64
	P95     float64
	Slowest float64
	// WritesPerChange counts requests to the hub's API server that ask for a change.
	WritesPerChange float64
	Writes          map[string]float64
	CPUPerChange    float64
	PeakRSS         int64
}

// RunServices measures how endpoints get from the members that provide Services to those that consume them.
func RunServices(ctx context.Context, o Options) error {
	var result ServiceResult
	_, err := onFleet(ctx, o, serviceMembers, func(s *Stand) []scenario {
		return []scenario{{true, func(ctx context.Context) (_ Result, err error) {
			result, err = s.services(ctx)
			return Result{Name: "multi-cluster services"}, err
		}}}
	})
	if err != nil {
		return err
	}
	printServices(o.Out, result)
	return nil
}

// services shares manyServices Services between all members, each of which provides slices for all of them and consumes
// those of the others, and then has one pod at a time become ready.
func (s *Stand) services(ctx context.Context) (ServiceResult, error) {
	r := ServiceResult{Services: manyServices, Members: len(s.far), Endpoints: serviceEndpoints, Changes: serviceSamples}
	for name, m := range s.far {
		if err := watchSlices(ctx, m); err != nil {
			return r, err
		}
		if err := awaitNamespace(ctx, m); err != nil {
			return r, fmt.Errorf("in %s: %w", name, err)
		}
	}
	started := time.Now()
	if err := Parallel(ctx, 10, manyServices, s.createService); err != nil {
		return r, err
	}
	if _, err := s.everywhere(ctx, "slices", func(o map[string]any) bool {
		return fleet.Count(o, "slice", func(obj any) bool { return named(obj, "member") }) >= manyServices*(len(s.far)-1)
	}); err != nil {
		return r, err
	}
	r.SetUp = time.Since(started).Seconds()
	if err := s.settled(ctx); err != nil {
		return r, err
	}
	p, err := s.begin(ctx, "endpoint changes", serviceSamples)
	if err != nil {
		return r, err
	}
	var times []float64
	for i := range serviceSamples {
		took, err := s.becomeReady(ctx, i)
		if err != nil {
			return r, err
		}
		times = append(times, took.Seconds())
	}
	r.P50, r.P95, r.Slowest = quantile(times, .5), quantile(times, .95), quantile(times, 1)
	costs, err := p.end(ctx, 0)
	r.WritesPerChange, r.Writes, r.CPUPerChange, r.PeakRSS = costs.WritesPerObject, costs.Writes, costs.CPUPerObject, costs.PeakRSS
	return r, err
}

func watchSlices(ctx context.Context, s *fleet.Cluster) error {
	typed := informers.NewSharedInformerFactoryWithOptions(s.Kube, 0, informers.WithNamespace(fleet.Namespace))
	if _, err := typed.Discovery().V1().EndpointSlices().Informer().AddEventHandler(s.Handler("slice")); err != nil {
		return fmt.Errorf("watching slices: %w", err)
	}
	s.Run(typed)
	typed.WaitForCacheSync(ctx.Done())
	return nil
}

// awaitNamespace waits until the hub has made the namespace in a member.
func awaitNamespace(ctx context.Context, s *fleet.Cluster) error {
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := s.Kube.CoreV1().Namespaces().Get(ctx, fleet.Namespace, metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for the namespace: %w", err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func serviceName(i int) string { return fmt.Sprintf("service-%03d", i) }

// createService makes a Service that everybody provides and consumes. The members are bare, so what their endpoint
// controllers would do with it is done here: a slice as soon as the Service is there, with its labels.
func (s *Stand) createService(ctx context.Context, i int) error {
	name := serviceName(i)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: fleet.Namespace},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	if _, err := s.Top.Kube.CoreV1().Services(fleet.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating Service %s: %w", name, err)
	}
	mcs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": networkingv1alpha1.GroupVersion.String(), "kind": networkingv1alpha1.KindMultiClusterService,
		"metadata": map[string]any{"name": name, "namespace": fleet.Namespace},
		"spec":     map[string]any{"types": []any{string(networkingv1alpha1.ExposureTypeCrossCluster)}},
	}}
	created, err := s.Top.Dynamic.Resource(multiClusterServices).Namespace(fleet.Namespace).Create(ctx, mcs, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating MultiClusterService %s: %w", name, err)
	}
	id := created.GetLabels()[networkingv1alpha1.MultiClusterServicePermanentIDLabel]
	return s.provide(ctx, i, id)
}

// provide makes every member's slice of a Service.
func (s *Stand) provide(ctx context.Context, i int, id string) error {
	for m := range len(s.far) {
		member := s.far[fmt.Sprintf("member%d", m+1)]
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: serviceName(i), Namespace: fleet.Namespace, Labels: map[string]string{
				discoveryv1.LabelServiceName: serviceName(i), discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
				networkingv1alpha1.MultiClusterServicePermanentIDLabel: id,
			}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(80))}},
		}
		for e := range serviceEndpoints {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", 64+m, i, e+1)},
				Conditions: discoveryv1.EndpointConditions{Ready: new(e > 0), Serving: new(e > 0), Terminating: new(false)},
			})
		}
		if _, err := member.Kube.DiscoveryV1().EndpointSlices(fleet.Namespace).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating slice %s: %w", slice.Name, err)
		}
	}
	return nil
}

// settled waits until every Work is applied, so that the changes are measured alone.
func (s *Stand) settled(ctx context.Context) error {
	want := manyServices * len(s.far) * len(s.far) // a Service in each member, a slice in each other one
	_, err := s.Top.Until(ctx, "works to be applied", func(o map[string]any) bool { return fleet.Count(o, "work", fleet.WorkApplied) >= want })
	return err
}

// becomeReady turns the first pod of one provider's slice from not ready to ready or back, and waits until all others
// have the change.
func (s *Stand) becomeReady(ctx context.Context, i int) (time.Duration, error) {
	provider := fmt.Sprintf("member%d", i%len(s.far)+1)
	name := serviceName(i % manyServices)
	client := s.far[provider].Kube.DiscoveryV1().EndpointSlices(fleet.Namespace)
	slice, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading slice %s: %w", name, err)
	}
	ready := !*slice.Endpoints[0].Conditions.Ready
	slice.Endpoints[0].Conditions.Ready, slice.Endpoints[0].Conditions.Serving = &ready, &ready
	started := time.Now()
	if _, err := client.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("changing slice %s: %w", name, err)
	}
	last := started
	key := "slice/" + fleet.Namespace + "/" + networkingv1alpha1.DispatchedEndpointSliceName(provider, name)
	for consumer, m := range s.far {
		if consumer == provider {
			continue
		}
		at, err := m.Until(ctx, name+" in "+consumer, func(o map[string]any) bool {
			seen, ok := o[key].(*discoveryv1.EndpointSlice)
			return ok && len(seen.Endpoints) > 0 && *seen.Endpoints[0].Conditions.Ready == ready
		})
		if err != nil {
			return 0, err
		}
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(started), nil
}

func printServices(out io.Writer, r ServiceResult) {
	fmt.Fprintf(out, "%d Services, %d endpoints each in %d members, %d changes of one endpoint\n", r.Services, r.Endpoints, r.Members, r.Changes)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "set up\tp50\tp95\tslowest\twrites per change\tCPU per change\tpeak RSS\t\n")
	fmt.Fprintf(w, "%.1f s\t%.0f ms\t%.0f ms\t%.0f ms\t%.1f\t%.1f ms\t%d MB\t\n", r.SetUp, r.P50*1000, r.P95*1000, r.Slowest*1000, r.WritesPerChange, r.CPUPerChange*1000, r.PeakRSS>>20)
	_ = w.Flush() // the terminal may be gone
	for _, resource := range slices.Sorted(maps.Keys(r.Writes)) {
		fmt.Fprintf(out, "%8.2f  %s\n", r.Writes[resource], resource)
	}
}

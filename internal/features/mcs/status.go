package mcs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// serviceState is everything that the status of one MultiClusterService is computed from.
type serviceState struct {
	mcs      *networkingv1alpha1.MultiClusterService
	exposure exposure.Clusters
	// service is nil while it does not exist.
	service *corev1.Service
	// obstacle reports why nothing is done; empty if nothing prevents it.
	obstacle string
	// binding is nil before it is created.
	binding *workv1alpha2.ResourceBinding
	// works are all Works of the MultiClusterService, records included.
	works []*workv1alpha1.Work
	// expired has the clusters that have not been ready for too long, with a message.
	expired map[string]string
	// excess has the clusters that have too much of something, with what their condition says.
	excess map[string]string
}

// serviceApplied is the condition of the Service itself.
func (s serviceState) serviceApplied() metav1.Condition {
	generation := s.mcs.Generation
	if s.obstacle != "" {
		return networkingv1alpha1.ServiceNotApplied(generation, s.obstacle)
	}
	items := map[string]workv1alpha2.AggregatedStatusItem{}
	if s.binding != nil {
		for _, item := range s.binding.Status.AggregatedStatus {
			items[item.ClusterName] = item
		}
	}
	var complaints []string
	for _, cluster := range s.exposure.All() {
		item, there := items[cluster]
		switch {
		case !there || !item.Applied && item.AppliedMessage == "":
			complaints = append(complaints, fmt.Sprintf("cluster %s: the Service is not there yet", cluster))
		case !item.Applied:
			complaints = append(complaints, fmt.Sprintf("cluster %s: %s", cluster, item.AppliedMessage))
		}
	}
	complaints = append(complaints, s.unknown()...)
	if len(s.exposure.All()) == 0 && len(complaints) == 0 {
		complaints = []string{"there are no clusters to take the Service to"}
	}
	if s.balances() {
		complaints = append(complaints, s.withoutAddress(items)...)
	}
	if len(complaints) > 0 {
		return networkingv1alpha1.ServiceNotApplied(generation, enumerate(complaints, "; "))
	}
	return networkingv1alpha1.ServiceApplied(generation, "The Service is in "+enumerate(s.exposure.All(), ", "))
}

func (s serviceState) unknown() []string {
	var complaints []string
	for _, cluster := range s.exposure.Unknown {
		complaints = append(complaints, fmt.Sprintf("cluster %s is not registered", cluster))
	}
	return complaints
}

func (s serviceState) balances() bool {
	return slices.Contains(s.mcs.Spec.Types, networkingv1alpha1.ExposureTypeLoadBalancer)
}

// withoutAddress lists the providers whose load balancer has no address yet.
func (s serviceState) withoutAddress(items map[string]workv1alpha2.AggregatedStatusItem) []string {
	if s.service != nil && s.service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return []string{fmt.Sprintf("Service %s/%s has type %s, so no cluster gives it an address: set its type to LoadBalancer",
			s.service.Namespace, s.service.Name, s.service.Spec.Type)}
	}
	var complaints []string
	for _, cluster := range s.exposure.Providers {
		if item, ok := items[cluster]; ok && item.Applied && len(ingressOf(item)) == 0 {
			complaints = append(complaints, fmt.Sprintf("cluster %s: its load balancer has no address yet", cluster))
		}
	}
	return complaints
}

// loadBalancer lists the ingress points of all providers, each once, host names before addresses.
func (s serviceState) loadBalancer() corev1.LoadBalancerStatus {
	var status corev1.LoadBalancerStatus
	if !s.balances() || s.binding == nil || s.service == nil {
		return status
	}
	at := map[string]int{}
	for _, item := range s.binding.Status.AggregatedStatus {
		if !slices.Contains(s.exposure.Providers, item.ClusterName) {
			continue
		}
		for _, point := range ingressOf(item) {
			key := point.Hostname + "|" + point.IP
			i, seen := at[key]
			if !seen {
				at[key] = len(status.Ingress)
				status.Ingress = append(status.Ingress, *point.DeepCopy())
				continue
			}
			status.Ingress[i].Ports = mergePorts(status.Ingress[i].Ports, point.Ports)
		}
	}
	slices.SortStableFunc(status.Ingress, func(a, b corev1.LoadBalancerIngress) int {
		return cmp.Or(cmp.Compare(b2i(a.Hostname == ""), b2i(b.Hostname == "")), cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.IP, b.IP))
	})
	return status
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mergePorts adds the ports of a second cluster behind one address. A port with an error in either has it.
func mergePorts(ports, more []corev1.PortStatus) []corev1.PortStatus {
	for _, m := range more {
		i := slices.IndexFunc(ports, func(p corev1.PortStatus) bool { return p.Port == m.Port && p.Protocol == m.Protocol })
		switch {
		case i < 0:
			ports = append(ports, m)
		case ports[i].Error == nil:
			ports[i].Error = m.Error
		}
	}
	return ports
}

// ingressOf lists the ingress points that one cluster reports; none if its status cannot be read.
func ingressOf(item workv1alpha2.AggregatedStatusItem) []corev1.LoadBalancerIngress {
	if item.Status == nil {
		return nil
	}
	var status corev1.ServiceStatus
	if json.Unmarshal(item.Status.Raw, &status) != nil {
		return nil
	}
	points := slices.DeleteFunc(status.LoadBalancer.Ingress, func(p corev1.LoadBalancerIngress) bool {
		return len(p.IP) > bounds.NameBytes || len(p.Hostname) > bounds.NameBytes
	})
	return points[:min(len(points), bounds.MaxEntryPoints)]
}

// dispatchedCondition is the condition of the endpoints; nil if none are exchanged.
func (s serviceState) dispatchedCondition() *metav1.Condition {
	if !slices.Contains(s.mcs.Spec.Types, networkingv1alpha1.ExposureTypeCrossCluster) {
		return nil
	}
	generation := s.mcs.Generation
	if s.obstacle != "" {
		return new(networkingv1alpha1.EndpointSlicesNotDispatched(generation, s.obstacle))
	}
	complaints := s.unknown()
	for _, provider := range s.exposure.Providers {
		complaints = append(complaints, s.missingFrom(provider)...)
	}
	for _, consumer := range s.exposure.Consumers {
		if why, expired := s.expired[consumer]; expired {
			complaints = append(complaints, why+": what it has from others may be old")
		}
	}
	if len(complaints) > 0 {
		return new(networkingv1alpha1.EndpointSlicesNotDispatched(generation, enumerate(complaints, "; ")))
	}
	return new(networkingv1alpha1.EndpointSlicesDispatched(generation, fmt.Sprintf("The endpoints of %s are in %s",
		orNone(enumerate(s.exposure.Providers, ", "), "no cluster"), orNone(enumerate(s.exposure.Consumers, ", "), "no cluster"))))
}

// missingFrom lists what prevents that consumers have the endpoints of one provider.
func (s serviceState) missingFrom(provider string) []string {
	var complaints []string
	if why, expired := s.expired[provider]; expired {
		complaints = append(complaints, why+": its endpoints are marked as not ready")
	}
	if why := s.excess[provider]; why != "" {
		complaints = append(complaints, fmt.Sprintf("cluster %s: it has too much, and its endpoints may be missing: %s", provider, why))
	}
	records := 0
	for _, w := range s.works {
		if mcswork.IsCollected(w) && w.Namespace == workv1alpha1.ExecutionNamespace(provider) {
			records++
		}
	}
	if records == 0 {
		if s.hasSelector() && s.expired[provider] == "" {
			complaints = append(complaints, fmt.Sprintf("cluster %s: no EndpointSlice of the Service was found yet", provider))
		}
		return complaints
	}
	if records >= endpointslices.MaxSlices {
		complaints = append(complaints, fmt.Sprintf("cluster %s: of the Service %d EndpointSlices are recorded, and no more", provider, endpointslices.MaxSlices))
	}
	for _, consumer := range s.exposure.ConsumersOf(provider) {
		if why := s.arrival(provider, consumer); why != "" {
			complaints = append(complaints, fmt.Sprintf("endpoints of cluster %s in cluster %s: %s", provider, consumer, why))
		}
	}
	return complaints
}

// hasSelector returns whether members make a slice for the Service even if it has no pods.
func (s serviceState) hasSelector() bool { return s.service != nil && len(s.service.Spec.Selector) > 0 }

// arrival returns why a consumer lacks a provider's endpoints; empty if it has one slice of several, since slices come and go with
// pods.
func (s serviceState) arrival(provider, consumer string) string {
	arrived := false
	for _, w := range s.works {
		if !mcswork.IsDispatched(w) || w.Namespace != workv1alpha1.ExecutionNamespace(consumer) ||
			w.Annotations[networkingv1alpha1.EndpointSliceProvisionClusterAnnotation] != provider {
			continue
		}
		applied := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
		switch {
		case applied == nil:
		case applied.Status == metav1.ConditionTrue:
			arrived = true
		default:
			return applied.Message
		}
	}
	if !arrived {
		return "they are on their way"
	}
	return ""
}

// status is the desired status. Conditions keep the time of their last transition.
func (s serviceState) status() networkingv1alpha1.MultiClusterServiceStatus {
	status := *s.mcs.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, s.serviceApplied())
	if c := s.dispatchedCondition(); c != nil {
		meta.SetStatusCondition(&status.Conditions, *c)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, networkingv1alpha1.EndpointSliceDispatched)
	}
	status.LoadBalancer = s.loadBalancer()
	return status
}

// enumerate joins a limited number of texts, short enough for a condition.
func enumerate(texts []string, separator string) string {
	const most, longest = 10, 4096
	more := ""
	if len(texts) > most {
		more = fmt.Sprintf(" and %d more", len(texts)-most)
		texts = texts[:most]
	}
	joined := strings.Join(texts, separator)
	if len(joined) > longest {
		joined = strings.ToValidUTF8(joined[:longest], "") + " …"
	}
	return joined + more
}

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
	"github.com/flagship-k8s/flagship/internal/features/mcs/exposure"
	"github.com/flagship-k8s/flagship/internal/features/mcs/mcswork"
)

// picture is everything that the status of one MultiClusterService is made from.
type serviceState struct {
	mcs      *networkingv1alpha1.MultiClusterService
	exposure exposure.Clusters
	// service is nil while it does not exist.
	service *corev1.Service
	// obstacle says why nothing is done for the time being; empty if nothing stands in the way.
	obstacle string
	// binding is nil before it was made.
	binding *workv1alpha2.ResourceBinding
	// works are those of this room, records included.
	works []*workv1alpha1.Work
	// away are clusters that have not been ready for too long, with words about it.
	away map[string]string
	// pulled are providers whose endpoints nobody can collect.
	pulled map[string]bool
}

// serviceApplied judges the way of the Service.
func (p serviceState) serviceApplied() metav1.Condition {
	generation := p.mcs.Generation
	if p.obstacle != "" {
		return networkingv1alpha1.ServiceNotApplied(generation, p.obstacle)
	}
	items := map[string]workv1alpha2.AggregatedStatusItem{}
	if p.binding != nil {
		for _, item := range p.binding.Status.AggregatedStatus {
			items[item.ClusterName] = item
		}
	}
	var complaints []string
	for _, cluster := range p.exposure.All() {
		item, there := items[cluster]
		switch {
		case !there || !item.Applied && item.AppliedMessage == "":
			complaints = append(complaints, fmt.Sprintf("cluster %s: the Service is not there yet", cluster))
		case !item.Applied:
			complaints = append(complaints, fmt.Sprintf("cluster %s: %s", cluster, item.AppliedMessage))
		}
	}
	complaints = append(complaints, p.unknown()...)
	if len(p.exposure.All()) == 0 && len(complaints) == 0 {
		complaints = []string{"there are no clusters to take the Service to"}
	}
	if p.balances() {
		complaints = append(complaints, p.withoutAddress(items)...)
	}
	if len(complaints) > 0 {
		return networkingv1alpha1.ServiceNotApplied(generation, enumerate(complaints, "; "))
	}
	return networkingv1alpha1.ServiceApplied(generation, "The Service is in "+enumerate(p.exposure.All(), ", "))
}

func (p serviceState) unknown() []string {
	var complaints []string
	for _, cluster := range p.exposure.Unknown {
		complaints = append(complaints, fmt.Sprintf("cluster %s is not registered", cluster))
	}
	return complaints
}

func (p serviceState) balances() bool {
	return slices.Contains(p.mcs.Spec.Types, networkingv1alpha1.ExposureTypeLoadBalancer)
}

// withoutAddress names the clusters that have the Service but no way in yet.
func (p serviceState) withoutAddress(items map[string]workv1alpha2.AggregatedStatusItem) []string {
	if p.service != nil && p.service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return []string{fmt.Sprintf("Service %s/%s has type %s, so no cluster gives it an address: set its type to LoadBalancer",
			p.service.Namespace, p.service.Name, p.service.Spec.Type)}
	}
	var complaints []string
	for _, cluster := range p.exposure.Providers {
		if item, ok := items[cluster]; ok && item.Applied && len(ingressOf(item)) == 0 {
			complaints = append(complaints, fmt.Sprintf("cluster %s: its load balancer has no address yet", cluster))
		}
	}
	return complaints
}

// loadBalancer is the ways in of all providers, each once, host names before addresses.
func (p serviceState) loadBalancer() corev1.LoadBalancerStatus {
	var status corev1.LoadBalancerStatus
	if !p.balances() || p.binding == nil || p.service == nil {
		return status
	}
	at := map[string]int{}
	for _, item := range p.binding.Status.AggregatedStatus {
		if !slices.Contains(p.exposure.Providers, item.ClusterName) {
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

// ingressOf is what one cluster reports about its load balancer; nothing if that cannot be read.
func ingressOf(item workv1alpha2.AggregatedStatusItem) []corev1.LoadBalancerIngress {
	if item.Status == nil {
		return nil
	}
	var status corev1.ServiceStatus
	if json.Unmarshal(item.Status.Raw, &status) != nil {
		return nil
	}
	return status.LoadBalancer.Ingress
}

// dispatchedCondition judges the way of the endpoints; nil where none are exchanged.
func (p serviceState) dispatchedCondition() *metav1.Condition {
	if !slices.Contains(p.mcs.Spec.Types, networkingv1alpha1.ExposureTypeCrossCluster) {
		return nil
	}
	generation := p.mcs.Generation
	if p.obstacle != "" {
		return new(networkingv1alpha1.EndpointSlicesNotDispatched(generation, p.obstacle))
	}
	complaints := p.unknown()
	for _, provider := range p.exposure.Providers {
		complaints = append(complaints, p.missingFrom(provider)...)
	}
	for _, consumer := range p.exposure.Consumers {
		if why, away := p.away[consumer]; away {
			complaints = append(complaints, why+": what it has from others may be old")
		}
	}
	if len(complaints) > 0 {
		return new(networkingv1alpha1.EndpointSlicesNotDispatched(generation, enumerate(complaints, "; ")))
	}
	return new(networkingv1alpha1.EndpointSlicesDispatched(generation, fmt.Sprintf("The endpoints of %s are in %s",
		orNone(enumerate(p.exposure.Providers, ", "), "no cluster"), orNone(enumerate(p.exposure.Consumers, ", "), "no cluster"))))
}

// missingFrom says what is wrong with the endpoints of one provider.
func (p serviceState) missingFrom(provider string) []string {
	if p.pulled[provider] {
		return []string{fmt.Sprintf("cluster %s is in pull mode: it gets endpoints of others, but its own cannot be collected, since the control plane has no connection to it", provider)}
	}
	var complaints []string
	if why, away := p.away[provider]; away {
		complaints = append(complaints, why+": its endpoints are marked as not ready")
	}
	records := 0
	for _, w := range p.works {
		if mcswork.IsCollected(w) && w.Namespace == workv1alpha1.ExecutionNamespace(provider) {
			records++
		}
	}
	if records == 0 {
		if p.hasSelector() && p.away[provider] == "" {
			complaints = append(complaints, fmt.Sprintf("cluster %s: no EndpointSlice of the Service was found yet", provider))
		}
		return complaints
	}
	for _, consumer := range p.exposure.ConsumersOf(provider) {
		if why := p.arrival(provider, consumer); why != "" {
			complaints = append(complaints, fmt.Sprintf("endpoints of cluster %s in cluster %s: %s", provider, consumer, why))
		}
	}
	return complaints
}

// hasSelector says that a cluster makes a slice for the Service even where it has no pods.
func (p serviceState) hasSelector() bool { return p.service != nil && len(p.service.Spec.Selector) > 0 }

// arrival says why a consumer lacks a provider's endpoints. One slice among several that is on its way is no news: slices
// come and go with pods.
func (p serviceState) arrival(provider, consumer string) string {
	arrived := false
	for _, w := range p.works {
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

// status is the whole status as it should be. Conditions keep the time of their last transition.
func (p serviceState) status() networkingv1alpha1.MultiClusterServiceStatus {
	status := *p.mcs.Status.DeepCopy()
	meta.SetStatusCondition(&status.Conditions, p.serviceApplied())
	if c := p.dispatchedCondition(); c != nil {
		meta.SetStatusCondition(&status.Conditions, *c)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, networkingv1alpha1.EndpointSliceDispatched)
	}
	status.LoadBalancer = p.loadBalancer()
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

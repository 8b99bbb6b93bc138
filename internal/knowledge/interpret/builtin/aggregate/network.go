package aggregate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// balancerReport is the status of a Service or an Ingress; T is its kind of entry point.
type balancerReport[T any] struct {
	LoadBalancer struct {
		Ingress []T `json:"ingress"`
	} `json:"loadBalancer"`
}

// Service lists the entry points of all clusters; an API server allows them for load balancers only.
func (a Aggregation) Service(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	if kind, _, _ := unstructured.NestedString(template.Object, "spec", "type"); kind != string(corev1.ServiceTypeLoadBalancer) {
		return template, nil
	}
	points, err := entryPoints(items, func(p *corev1.LoadBalancerIngress) bool {
		return isAddress(p.IP, p.Hostname) && (p.IPMode == nil || p.IP != "" && (*p.IPMode == corev1.LoadBalancerIPModeVIP || *p.IPMode == corev1.LoadBalancerIPModeProxy))
	})
	if err != nil {
		return nil, err
	}
	virtual := corev1.LoadBalancerIPModeVIP
	for i := range points {
		if points[i].IP != "" && points[i].IPMode == nil {
			points[i].IPMode = &virtual
		}
	}
	slices.SortFunc(points, func(a, b corev1.LoadBalancerIngress) int {
		return compareAddress(a.Hostname, a.IP, b.Hostname, b.IP)
	})
	return withEntryPoints(template, points)
}

func (a Aggregation) Ingress(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	points, err := entryPoints(items, func(p *networkingv1.IngressLoadBalancerIngress) bool { return isAddress(p.IP, p.Hostname) })
	if err != nil {
		return nil, err
	}
	slices.SortFunc(points, func(a, b networkingv1.IngressLoadBalancerIngress) int {
		return compareAddress(a.Hostname, a.IP, b.Hostname, b.IP)
	})
	return withEntryPoints(template, points)
}

// compareAddress puts hostnames before addresses.
func compareAddress(hostA, ipA, hostB, ipB string) int {
	if (hostA == "") != (hostB == "") {
		if hostA != "" {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(hostA, hostB), cmp.Compare(ipA, ipB))
}

// isAddress returns whether an API server takes an entry point: it refuses the status with an address that is none, and with it those of
// all other clusters.
func isAddress(ip, hostname string) bool {
	return (ip != "" || hostname != "") && (ip == "" || len(validation.IsValidIP(nil, ip)) == 0) &&
		(hostname == "" || len(validation.IsDNS1123Subdomain(hostname)) == 0 && net.ParseIP(hostname) == nil)
}

// entryPoints lists the valid entry points of all clusters, each once, and of one cluster a limited number.
func entryPoints[T any](items []workv1alpha2.AggregatedStatusItem, valid func(*T) bool) ([]T, error) {
	list := reportsOf[balancerReport[T]](items)
	var points []T
	seen := map[string]bool{}
	for i := range list {
		ingress := list[i].status.LoadBalancer.Ingress
		for _, point := range ingress[:min(len(ingress), bounds.MaxEntryPoints)] {
			if !valid(&point) {
				continue
			}
			key, err := json.Marshal(point)
			if err != nil {
				return nil, fmt.Errorf("encoding an entry point of cluster %s: %w", list[i].cluster, err)
			}
			if !seen[string(key)] {
				seen[string(key)] = true
				points = append(points, point)
			}
		}
	}
	return points, nil
}

// withEntryPoints returns the template with a load balancer that has the points, or no point at all.
func withEntryPoints[T any](template *unstructured.Unstructured, points []T) (*unstructured.Unstructured, error) {
	type loadBalancer struct {
		Ingress []T `json:"ingress,omitempty"`
	}
	balancer, err := typedStatus(&loadBalancer{Ingress: points})
	if err != nil {
		return nil, err
	}
	status := statusCopy(template)
	if _, present := status["loadBalancer"]; !present && len(points) == 0 {
		return template, nil
	}
	status["loadBalancer"] = balancer
	return interpret.WithStatus(template, status), nil
}

package services_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// The ports are in the part of the range from which API servers allocate none by themselves.
const (
	takenPort       = 30077
	takenHealthPort = 30078
	otherPort       = 30079
	exchangedPort   = 30080 // and the two after it
)

// TestNodePortsAreEqual: members have the node ports of the hub, but for those that another Service has; these follow when they are
// free.
func TestNodePortsAreEqual(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1, m2 := fleet.Member("member1"), fleet.Member("member2")
	fleettest.ExpectEventually(t, m1, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fleettest.Exists)
	blocker := nodePortService(ns, "blocker", takenPort, takenHealthPort)
	fleettest.Create(t, m1, blocker)
	web := nodePortService(ns, "web", takenPort, 0)
	balanced := fleettest.Service(ns, "balanced")
	balanced.Spec.Type, balanced.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
	balanced.Spec.HealthCheckNodePort = takenHealthPort
	fleettest.Create(t, fleet.Hub, web, balanced, fleettest.Policy(ns, "all", fleettest.To("member1", "member2"), web, balanced))

	onHub := fleettest.ExpectEventually(t, fleet.Hub, web, fleettest.Exists)
	dynamic := onHub.Spec.Ports[1].NodePort
	fleettest.ExpectEventually(t, m2, web, nodePorts(takenPort, dynamic))
	copied := fleettest.ExpectEventually(t, m1, web, func(s *corev1.Service) error {
		if p := s.Spec.Ports; p[0].NodePort == 0 || p[0].NodePort == takenPort || p[1].NodePort != dynamic {
			return fmt.Errorf("ports are %v", p)
		}
		return nil
	})
	fleettest.ExpectEventually(t, fleet.Hub, workOf("member1", web), appliedIs(isFalse, workv1alpha1.AppliedNodePortTakenReason, "30077 (provided port is already allocated)"))
	fleettest.ExpectEventually(t, fleet.Hub, workOf("member2", web), appliedIs(isTrue, "", ""))
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-service"}}
	fleettest.ExpectEventually(t, fleet.Hub, binding, func(b *workv1alpha2.ResourceBinding) error {
		for _, item := range b.Status.AggregatedStatus {
			if item.ClusterName == "member1" && strings.Contains(item.AppliedMessage, "30077") {
				return nil
			}
		}
		return fmt.Errorf("aggregated status is %v", b.Status.AggregatedStatus)
	})

	healthPort := func(want bool) func(*corev1.Service) error {
		return func(s *corev1.Service) error {
			if p := s.Spec.HealthCheckNodePort; p == 0 || (p == takenHealthPort) != want {
				return fmt.Errorf("port of the health check is %d", p)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, m2, balanced, healthPort(true))
	fleettest.ExpectEventually(t, m1, balanced, healthPort(false))
	fleettest.ExpectEventually(t, fleet.Hub, workOf("member1", balanced), appliedIs(isTrue, "", ""))

	fleettest.Update(t, fleet.Hub, web, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	fleettest.ExpectEventually(t, m1, web, func(s *corev1.Service) error {
		if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
			return fmt.Errorf("session affinity is %s", s.Spec.SessionAffinity)
		}
		return nodePorts(copied.Spec.Ports[0].NodePort, dynamic)(s)
	})
	fleettest.ExpectEventually(t, m1, blocker, nodePorts(takenPort, takenHealthPort))

	fleettest.Delete(t, m1, blocker)
	fleettest.ExpectEventually(t, m1, web, nodePorts(takenPort, dynamic))
	fleettest.ExpectEventually(t, fleet.Hub, workOf("member1", web), appliedIs(isTrue, "", ""))
	fleettest.Update(t, fleet.Hub, web, func(s *corev1.Service) { s.Spec.Ports[1].NodePort = otherPort })
	for _, m := range []*fleettest.Cluster{m1, m2} {
		fleettest.ExpectEventually(t, m, web, nodePorts(takenPort, otherPort))
	}
}

// TestNodePortsAreExchanged: two Services take each other's node port, which neither has free for the other.
func TestNodePortsAreExchanged(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	m1 := fleet.Member("member1")
	one, two := nodePortService(ns, "one", exchangedPort, 0), nodePortService(ns, "two", exchangedPort+1, 0)
	policy := fleettest.Policy(ns, "both", fleettest.To("member1"), one, two)
	fleettest.Create(t, fleet.Hub, one, two, policy)
	first := func(want int32) func(*corev1.Service) error {
		return func(s *corev1.Service) error {
			if got := s.Spec.Ports[0].NodePort; got != want {
				return fmt.Errorf("its node port is %d, want %d", got, want)
			}
			return nil
		}
	}
	fleettest.ExpectEventually(t, m1, one, first(exchangedPort))
	fleettest.ExpectEventually(t, m1, two, first(exchangedPort+1))
	suspended := func(want bool) {
		fleettest.Update(t, fleet.Hub, policy, func(p *policyv1alpha1.PropagationPolicy) {
			p.Spec.Suspension = &policyv1alpha1.Suspension{Dispatching: &want}
		})
		for _, service := range []*corev1.Service{one, two} {
			fleettest.ExpectEventually(t, fleet.Hub, workOf("member1", service), func(w *workv1alpha1.Work) error {
				if (w.Spec.SuspendDispatching != nil && *w.Spec.SuspendDispatching) != want {
					return fmt.Errorf("suspendDispatching is %v", w.Spec.SuspendDispatching)
				}
				return nil
			})
		}
	}
	suspended(true) // so that the member receives the last step only
	for _, step := range []struct {
		service *corev1.Service
		port    int32
	}{{one, exchangedPort + 2}, {two, exchangedPort}, {one, exchangedPort + 1}} {
		fleettest.Update(t, fleet.Hub, step.service, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = step.port })
	}
	for service, port := range map[*corev1.Service]int{one: exchangedPort + 1, two: exchangedPort} {
		fleettest.ExpectEventually(t, fleet.Hub, workOf("member1", service), func(w *workv1alpha1.Work) error {
			if raw := string(w.Spec.Workload.Manifests[0].Raw); !strings.Contains(raw, fmt.Sprint(port)) {
				return fmt.Errorf("it orders %s", raw)
			}
			return nil
		})
	}
	suspended(false)
	fleettest.ExpectEventually(t, m1, one, first(exchangedPort+1))
	fleettest.ExpectEventually(t, m1, two, first(exchangedPort))
	for _, service := range []*corev1.Service{one, two} {
		fleettest.ExpectEventually(t, fleet.Hub, workOf("member1", service), appliedIs(isTrue, "", ""))
	}
}

// nodePortService has two ports; the node port 0 is allocated.
func nodePortService(ns, name string, first, second int32) *corev1.Service {
	service := fleettest.Service(ns, name)
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, NodePort: first}, {Name: "more", Port: 81, NodePort: second}}
	return service
}

func nodePorts(want ...int32) func(*corev1.Service) error {
	return func(s *corev1.Service) error {
		for i, port := range s.Spec.Ports {
			if port.NodePort != want[i] {
				return fmt.Errorf("ports are %v, want the node ports %v", s.Spec.Ports, want)
			}
		}
		return nil
	}
}

func workOf(member string, service *corev1.Service) *workv1alpha1.Work {
	return &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{
		Namespace: workv1alpha1.ExecutionNamespace(member), Name: workv1alpha1.WorkName("Service", service.Namespace, service.Name),
	}}
}

func appliedIs(status metav1.ConditionStatus, reason, text string) func(*workv1alpha1.Work) error {
	return func(w *workv1alpha1.Work) error {
		c := meta.FindStatusCondition(w.Status.Conditions, workv1alpha1.WorkApplied)
		if c == nil || c.Status != status || reason != "" && c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("condition is %+v", c)
		}
		return nil
	}
}

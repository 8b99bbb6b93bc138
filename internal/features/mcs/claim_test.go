package mcs

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
)

func TestMismatch(t *testing.T) {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}}},
	}
	port := func(name string, number int32) networkingv1alpha1.ExposurePort {
		return networkingv1alpha1.ExposurePort{Name: name, Port: number}
	}
	for reason, tc := range map[string]struct {
		ports []networkingv1alpha1.ExposurePort
		want  string
	}{
		"none asked for":     {},
		"both":               {ports: []networkingv1alpha1.ExposurePort{port("http", 80), port("metrics", 9090)}},
		"a number is enough": {ports: []networkingv1alpha1.ExposurePort{port("", 9090)}},
		"another number":     {ports: []networkingv1alpha1.ExposurePort{port("http", 8080)}, want: "spec.ports has http (8080), but Service shop/web has http (80), metrics (9090): correct one of them"},
		"a name of another":  {ports: []networkingv1alpha1.ExposurePort{port("http", 9090), port("", 1)}, want: "spec.ports has http (9090), 1, but Service shop/web has http (80), metrics (9090): correct one of them"},
	} {
		if got := mismatch(tc.ports, service); got != tc.want {
			t.Errorf("%s: got %q, want %q", reason, got, tc.want)
		}
	}
}

func TestContentIsWhatUsersChange(t *testing.T) {
	content := func(change func(*corev1.Service)) string {
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if change != nil {
			change(service)
		}
		text, err := contentOf(service)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	same := content(nil)
	for what, tc := range map[string]struct {
		change func(*corev1.Service)
		differ bool
	}{
		"status": {func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			s.ResourceVersion = "8"
		}, false},
		"our claim": {func(s *corev1.Service) {
			s.Labels[ownClaimLabels[0]], s.Annotations = "MultiClusterService", map[string]string{ownClaimAnnotations[0]: "shop"}
		}, false},
		"a policy's claim": {func(s *corev1.Service) { s.Labels[policyClaimLabels[0]] = "id" }, false},
		"a port":           {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		"a label":          {func(s *corev1.Service) { s.Labels["app"] = "other" }, true},
		"an annotation":    {func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }, true},
	} {
		if differ := content(tc.change) != same; differ != tc.differ {
			t.Errorf("a change of %s makes a difference: %v, want %v", what, differ, tc.differ)
		}
	}
}

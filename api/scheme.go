package api

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	appsv1alpha1 "github.com/flagship-k8s/flagship/api/apps/v1alpha1"
	autoscalingv1alpha1 "github.com/flagship-k8s/flagship/api/autoscaling/v1alpha1"
	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	multiclusterv1alpha1 "github.com/flagship-k8s/flagship/api/multicluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
	remedyv1alpha1 "github.com/flagship-k8s/flagship/api/remedy/v1alpha1"
	searchv1alpha1 "github.com/flagship-k8s/flagship/api/search/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// AddToScheme registers every kind of every group below this package.
func AddToScheme(scheme *runtime.Scheme) error {
	groups := []func(*runtime.Scheme) error{
		appsv1alpha1.AddToScheme,
		autoscalingv1alpha1.AddToScheme,
		clusterv1alpha1.AddToScheme,
		configv1alpha1.AddToScheme,
		fleetv1alpha1.AddToScheme,
		multiclusterv1alpha1.AddToScheme,
		multiclusterv1beta1.AddToScheme,
		networkingv1alpha1.AddToScheme,
		policyv1alpha1.AddToScheme,
		remedyv1alpha1.AddToScheme,
		searchv1alpha1.AddToScheme,
		workv1alpha1.AddToScheme,
		workv1alpha2.AddToScheme,
	}
	for _, add := range groups {
		if err := add(scheme); err != nil {
			return fmt.Errorf("registering kinds: %w", err)
		}
	}
	return nil
}

package unfollowed_test

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/host/preview/unfollowed"
)

func TestOf(t *testing.T) {
	type object = map[string]any
	of := func(apiVersion, kind string, spec object) object {
		return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": "x"}, "spec": spec}
	}
	rules := func(names ...string) object {
		all := object{}
		for _, name := range names {
			all[name] = object{"luaScript": "x"}
		}
		return of("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", object{"customizations": all})
	}
	hpa := func(version string, spec object) object {
		return of("autoscaling/"+version, "HorizontalPodAutoscaler", spec)
	}
	scaled := object{"scaleTargetRef": object{"kind": "Deployment", "name": "web"}, "maxReplicas": int64(7)}
	for name, tc := range map[string]struct {
		object  object
		deleted bool
		want    string
	}{
		"a template":                        {of("v1", "ConfigMap", nil), false, ""},
		"rules that are followed":           {rules("replicaResource", "dependencyInterpretation", "replicaRevision"), false, ""},
		"rules that are not":                {rules("replicaResource", "retention", "healthInterpretation"), false, "its retention, healthInterpretation does is not computed"},
		"when they end":                     {rules("statusAggregation"), true, "its statusAggregation does is not computed"},
		"rules that are none":               {of("config.karmada.io/v1alpha1", "ResourceInterpreterCustomization", object{"customizations": "x"}), false, ""},
		"an autoscaler":                     {hpa("v2", scaled), false, "Deployment web, it owns spec.replicas there and keeps it from 1 to 7"},
		"of another version":                {hpa("v1", scaled), false, "how many replicas it sets in members is not computed"},
		"that cannot be read":               {hpa("v2", object{"maxReplicas": "x"}), false, "how many replicas it sets"},
		"an autoscaler that ends":           {hpa("v2", scaled), true, ""},
		"a MultiClusterService":             {of("networking.karmada.io/v1alpha1", "MultiClusterService", nil), false, "EndpointSlices in members"},
		"an export":                         {of("multicluster.x-k8s.io/v1alpha1", "ServiceExport", nil), false, "what is imported is not computed"},
		"an import":                         {of("multicluster.x-k8s.io/v1alpha1", "ServiceImport", nil), true, "what is imported is not computed"},
		"a Deployment is not an autoscaler": {of("apps/v1", "Deployment", scaled), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := unfollowed.Of(&unstructured.Unstructured{Object: tc.object}, tc.deleted)
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
	if got := unfollowed.Of(nil, true); got != "" {
		t.Errorf("of no object: %q", got)
	}
}

func TestKind(t *testing.T) {
	for kind, want := range map[schema.GroupKind]string{
		{Group: "example.com", Kind: "Engine"}:                                        "is not computed",
		{Group: "autoscaling.karmada.io", Kind: "FederatedHPA"}:                       "nothing acts on it yet",
		{Group: "autoscaling.karmada.io", Kind: "CronFederatedHPA"}:                   "nothing acts on it yet",
		{Group: "networking.karmada.io", Kind: "MultiClusterIngress"}:                 "nothing acts on it here",
		{Group: "config.karmada.io", Kind: "ResourceInterpreterWebhookConfiguration"}: "its webhook would have to be called",
	} {
		if err := unfollowed.Kind(kind); !errors.Is(err, unfollowed.Err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", kind, err, want)
		}
	}
}

package access

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
)

// leftOff are the plugins upstream has on by default and a hub has not, each with the reason.
var leftOff = map[string]string{
	"DefaultIngressClass":          "a member has its own ingress classes",
	"DefaultStorageClass":          "a member has its own storage classes",
	"DefaultTolerationSeconds":     "a member adds its own tolerations",
	"LimitRanger":                  "a limit on the hub is a template",
	"NodeDeclaredFeatureValidator": "the hub has no nodes",
	"PersistentVolumeClaimResize":  "the storage class that allows it is in the member",
	"PodGroupProtection":           "its finalizer is taken off by a scheduler the hub does not run",
	"PodResizeValidator":           "the hub has no nodes to resize pods on",
	"PodSecurity":                  "pods do not run here",
	"PodTopologyLabels":            "the hub has no nodes to take labels from",
	"Priority":                     "priority classes are the member's",
	"ResourceQuota":                "a quota on the hub is a template",
	"RuntimeClass":                 "runtime classes are the member's",
	"ServiceAccount":               "tokens mounted here would be the hub's, not the member's",
	"StorageObjectInUseProtection": "its finalizer is taken off by controllers the hub does not run",
	"TaintNodesByCondition":        "the hub has no nodes",
}

// TestEveryDefaultPluginIsDecidedUpon fails when upstream turns on a plugin that this package has no decision for.
func TestEveryDefaultPluginIsDecidedUpon(t *testing.T) {
	upstream := sets.New(kubeoptions.AllOrderedPlugins...).Difference(kubeoptions.DefaultOffAdmissionPlugins())
	decided := hubPlugins()
	for name := range leftOff {
		decided.Insert(name)
	}
	if diff := cmp.Diff(sets.List(decided), sets.List(upstream)); diff != "" {
		t.Errorf("decide for each whether a hub has it (-decided +upstream):\n%s", diff)
	}
	for name := range leftOff {
		if hubPlugins().Has(name) {
			t.Errorf("%s is both on and left off", name)
		}
	}
	if !slices.Contains(kubeoptions.AllOrderedPlugins, beforeWebhooks) {
		t.Errorf("%s is no plugin any more: in-process plugins have lost their place", beforeWebhooks)
	}
}

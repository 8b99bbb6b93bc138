package apiserver_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// TestDiscoveryListsTheSearchAPI as Karmada does, for clients that read the discovery of all groups and for those that read that of one.
func TestDiscoveryListsTheSearchAPI(t *testing.T) {
	for name, legacy := range map[string]bool{"AllGroups": false, "OneGroup": true} {
		t.Run(name, func(t *testing.T) {
			client := discovery.NewDiscoveryClientForConfigOrDie(hub.LoopbackConfig())
			client.UseLegacyDiscovery = legacy
			eventually(t, func() string {
				_, lists, err := client.ServerGroupsAndResources()
				if err != nil {
					return err.Error()
				}
				at := slices.IndexFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "search.karmada.io/v1alpha1" })
				if at < 0 {
					return "the group is not served"
				}
				found := map[string]metav1.APIResource{}
				for _, r := range lists[at].APIResources {
					found[r.Name] = r
				}
				for plural, kind := range map[string]string{"proxying": "Proxying", "search": "Search"} {
					if r := found[plural]; r.Kind != kind || r.SingularName != plural || r.Namespaced || len(r.Verbs) > 0 {
						t.Errorf("%s is %+v", plural, r)
					}
				}
				if r := found["resourceregistries"]; !slices.Contains(r.Verbs, "watch") || !slices.Contains(r.ShortNames, "rr") || found["resourceregistries/status"].Kind != "ResourceRegistry" || len(found) != 4 {
					t.Errorf("the resources are %+v", found)
				}
				return ""
			})
		})
	}
}

package clusterstatus

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/clusterstatus/summary"
)

// Unplaced has the pods of Deployments that no node takes, in the clusters that this process observes. The zero value is ready; nil has
// none.
type Unplaced struct {
	mu       sync.Mutex
	clusters map[string]*summary.Resources
}

// set replaces the resources of a cluster; nil removes them.
func (u *Unplaced) set(cluster string, resources *summary.Resources) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.clusters == nil {
		u.clusters = map[string]*summary.Resources{}
	}
	if delete(u.clusters, cluster); resources != nil {
		u.clusters[cluster] = resources
	}
}

// maxUnplaced bounds the Deployments in a ClusterCapacity, and the pods of each: the replicas of the others move when these have moved.
const maxUnplaced = 64

// report sorts pods by Deployment, as the ClusterCapacity of a cluster has them.
func report(pods []summary.Unplaced) []fleetv1alpha1.UnplacedPods {
	deployments := map[types.NamespacedName][]string{}
	for _, p := range pods {
		deployments[p.Deployment] = append(deployments[p.Deployment], string(p.UID))
	}
	var out []fleetv1alpha1.UnplacedPods
	for deployment, uids := range deployments {
		slices.Sort(uids)
		out = append(out, fleetv1alpha1.UnplacedPods{Namespace: deployment.Namespace, Name: deployment.Name, Pods: uids[:min(len(uids), maxUnplaced)]})
	}
	slices.SortFunc(out, func(a, b fleetv1alpha1.UnplacedPods) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), maxUnplaced)]
}

// Visit calls visit for every pod.
func (u *Unplaced) Visit(visit func(cluster string, deployment types.NamespacedName, pod types.UID)) {
	u.mu.Lock()
	clusters := maps.Clone(u.clusters)
	u.mu.Unlock()
	for cluster, resources := range clusters {
		for _, p := range resources.Unplaced() {
			visit(cluster, p.Deployment, p.UID)
		}
	}
}

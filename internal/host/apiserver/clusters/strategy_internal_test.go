package clusters

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// TestConditionsOfAgentsHaveTheTimeOfTheControlPlane: an agent whose clock is an hour off neither makes objects leave its cluster at
// once, nor keeps them there for an hour more.
func TestConditionsOfAgentsHaveTheTimeOfTheControlPlane(t *testing.T) {
	now := time.Now()
	earlier := metav1.NewTime(now.Add(-10 * time.Minute).Truncate(time.Second))
	agent := &user.DefaultInfo{Name: clusterv1alpha1.AgentUser("eu"), Groups: clusterv1alpha1.AgentGroups("1")}
	for name, off := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			clusterOf := func(status metav1.ConditionStatus, at metav1.Time) *clusterv1alpha1.Cluster {
				return &clusterv1alpha1.Cluster{Status: clusterv1alpha1.ClusterStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: status, LastTransitionTime: at}}}}
			}
			written := func(writer user.Info, before, after metav1.ConditionStatus) time.Time {
				ctx := request.WithUser(t.Context(), writer)
				cluster := clusterOf(after, metav1.NewTime(now.Add(off)))
				statusStrategy{}.PrepareForUpdate(ctx, cluster, clusterOf(before, earlier))
				return cluster.Status.Conditions[0].LastTransitionTime.Time
			}
			if at := written(agent, "True", "False"); at.Before(now.Truncate(time.Second)) || at.After(time.Now()) {
				t.Errorf("a change is noted at %s, now is %s", at, now)
			}
			if at := written(agent, "False", "False"); !at.Equal(earlier.Time) {
				t.Errorf("without a change it is noted at %s, which was %s", at, earlier)
			}
			if at := written(&user.DefaultInfo{Name: "admin"}, "True", "False"); !at.Equal(now.Add(off)) {
				t.Errorf("a user who is no agent wrote %s, and it is noted at %s", now.Add(off), at)
			}
		})
	}
}

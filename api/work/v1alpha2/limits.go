package v1alpha2

import (
	"encoding/json"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReplicaLimit is how many replicas of an object a cluster takes, since it cannot run more.
type ReplicaLimit struct {
	Replicas int32 `json:"replicas"`
	// Until is when the limit ends.
	Until metav1.Time `json:"until"`
}

// ReplicaLimits are the limits of a binding that have not ended, by cluster. What cannot be read counts as none.
func ReplicaLimits(b Binding, now time.Time) map[string]ReplicaLimit {
	var limits map[string]ReplicaLimit
	if json.Unmarshal([]byte(b.GetAnnotations()[ReplicaLimitsAnnotation]), &limits) != nil {
		return nil
	}
	maps.DeleteFunc(limits, func(_ string, l ReplicaLimit) bool { return !now.Before(l.Until.Time) || l.Replicas < 0 })
	return limits
}

// SetReplicaLimits sets what ReplicaLimits reads.
func SetReplicaLimits(b Binding, limits map[string]ReplicaLimit) {
	annotations := maps.Clone(b.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, ReplicaLimitsAnnotation)
	if text, err := json.Marshal(limits); err == nil && len(limits) > 0 {
		annotations[ReplicaLimitsAnnotation] = string(text)
	}
	b.SetAnnotations(annotations)
}

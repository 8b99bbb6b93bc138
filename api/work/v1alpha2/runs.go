package v1alpha2

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FinishedAnnotation of a binding records, as JSON, in which clusters the present run of its template ended. It outlives the Works there.
const FinishedAnnotation = "flagship.io/finished-in"

// Finished is a run of a template, as v1alpha1.RunOf names it, and the clusters that ended it.
type Finished struct {
	Run      string   `json:"run"`
	Clusters []string `json:"clusters"`
	// Time is when the last of them was recorded.
	Time metav1.Time `json:"time"`
}

// FinishedOf returns what a binding records; nothing if that is about an earlier template of the name, or cannot be read.
func FinishedOf(binding Binding) Finished {
	text := binding.GetAnnotations()[FinishedAnnotation]
	if text == "" {
		return Finished{}
	}
	var finished Finished
	uid := string(binding.BindingSpec().Resource.UID)
	if json.Unmarshal([]byte(text), &finished) != nil || uid == "" || finished.Run != uid && !strings.HasPrefix(finished.Run, uid+"/") {
		return Finished{}
	}
	return finished
}

// In returns whether a cluster ended the run.
func (f Finished) In(cluster string) bool { return slices.Contains(f.Clusters, cluster) }

// Everywhere returns whether all clusters ended the run.
func (f Finished) Everywhere(targets []TargetCluster) bool {
	return len(f.Clusters) > 0 && !slices.ContainsFunc(targets, func(t TargetCluster) bool { return !f.In(t.Name) })
}

// SetFinished returns the annotations of a binding with the record; without it if no cluster ended the run.
func SetFinished(annotations map[string]string, finished Finished) map[string]string {
	annotations = maps.Clone(annotations)
	if len(finished.Clusters) == 0 {
		delete(annotations, FinishedAnnotation)
		return annotations
	}
	text, err := json.Marshal(finished)
	if err != nil {
		return annotations // never: it has texts only
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[FinishedAnnotation] = string(text)
	return annotations
}

package apply

import (
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/replicas"
	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

// Fingerprints returns, for each manifest of a Work in their order, what LastAppliedAnnotation of its object begins with
// while the object is as this Work had it applied. It is empty for a manifest that cannot be read.
func Fingerprints(work *workv1alpha1.Work) []string {
	fingerprints := make([]string, len(work.Spec.Workload.Manifests))
	for _, m := range ssa.ManifestsOf(work) {
		if m.Err != nil {
			continue
		}
		if hash, err := ssa.Wanted(replicas.WithoutRetained(m.Object)); err == nil {
			fingerprints[m.Ordinal] = hash
		}
	}
	return fingerprints
}

package schedule

import (
	"strconv"
	"time"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

// Annotations by which a policy, and so its bindings, ask for more than the
// placement itself can say. propagate carries them from the policy over to the binding.
const (
	// PartialPlacementAnnotation set to "true" places the replicas that fit when
	// not all do. Scheduled stays False and says what is missing, and the rest
	// follows when there is room. By default it is all or nothing.
	PartialPlacementAnnotation = policyv1alpha1.PartialPlacementAnnotation
	// FailbackAnnotation lets an object return to an earlier term of
	// clusterAffinities once it fits there again: "true" at once, a duration
	// such as "10m" after it has fitted for that long. By default an object
	// stays with the term it has.
	FailbackAnnotation = policyv1alpha1.FailbackAnnotation
)

func partial(annotations map[string]string) bool {
	yes, err := strconv.ParseBool(annotations[PartialPlacementAnnotation])
	return err == nil && yes
}

// failback returns how long an earlier term must fit before it is returned to,
// and whether that is wanted at all. What cannot be read is not wanted.
func failback(annotations map[string]string) (time.Duration, bool) {
	value, ok := annotations[FailbackAnnotation]
	if !ok {
		return 0, false
	}
	if yes, err := strconv.ParseBool(value); err == nil {
		return 0, yes
	}
	after, err := time.ParseDuration(value)
	return max(after, 0), err == nil
}

package hubstore

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// MetadataPatch is a merge patch of labels and annotations; a nil value removes the key. With a uid it cannot hit a
// successor of the object it is meant for.
type MetadataPatch struct {
	UID         types.UID          `json:"uid,omitempty"`
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
}

// Difference is what makes the owned keys of have what they are in want; other keys are left alone.
func Difference(have, want map[string]string, owned ...[]string) map[string]*string {
	changes := map[string]*string{}
	for _, keys := range owned {
		for _, key := range keys {
			value, wanted := want[key]
			present, exists := have[key]
			switch {
			case wanted && (!exists || present != value):
				changes[key] = &value
			case !wanted && exists:
				changes[key] = nil
			}
		}
	}
	return changes
}

// Empty says that the patch changes nothing.
func (p MetadataPatch) Empty() bool { return len(p.Labels) == 0 && len(p.Annotations) == 0 }

// Bytes is the patch as it is sent.
func (p MetadataPatch) Bytes() ([]byte, error) {
	raw, err := json.Marshal(map[string]MetadataPatch{"metadata": p})
	if err != nil {
		return nil, fmt.Errorf("encoding metadata: %w", err)
	}
	return raw, nil
}

package trial

import (
	"testing"

	"github.com/flagship-k8s/flagship/internal/tools/playground"
)

// TestTheBrakeIsOffUnlessItIsSet: a setting may be written as the flag that it is.
func TestTheBrakeIsOffUnlessItIsSet(t *testing.T) {
	for setting, off := range map[string]bool{"brake-minimum=10": false, "--brake-minimum=10": false, "degraded-after=5s": true} {
		o, err := hubOptions(playground.HubOptions{}, []string{setting})
		if err != nil || (o.Tunable.Brake.Share == 1) != off {
			t.Errorf("with %s the brake is %+v, %v", setting, o.Tunable.Brake, err)
		}
	}
}

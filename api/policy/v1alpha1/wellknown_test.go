package v1alpha1

import "testing"

func TestIsOn(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "1": true, "T": true, "false": false, "0": false, "": false, "yes": false} {
		if got := IsOn(map[string]string{PartialPlacementAnnotation: value}, PartialPlacementAnnotation); got != want {
			t.Errorf("the value %q switches the option on: %t, want %t", value, got, want)
		}
	}
	if IsOn(nil, PartialPlacementAnnotation) {
		t.Error("an annotation that is missing switches the option on")
	}
}

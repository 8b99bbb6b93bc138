package remote

import (
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// TestARecordOfDriftHasABound in bytes and in values.
func TestARecordOfDriftHasABound(t *testing.T) {
	for name, text := range map[string]string{
		"bytes":  `[{"cluster":"` + strings.Repeat("x", int(bounds.DriftAnswer.Piece.Bytes)) + `"}]`,
		"values": "[" + strings.Repeat("{},", int(bounds.DriftAnswer.Piece.Values)) + "{}]",
	} {
		if _, err := readDrift(t.Context(), strings.NewReader(text)); !bounds.IsTooMuch(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := readDrift(t.Context(), strings.NewReader(`[{"cluster":"member1"}]`)); err != nil || len(got) != 1 || got[0].Cluster != "member1" {
		t.Errorf("%v, %v", got, err)
	}
}

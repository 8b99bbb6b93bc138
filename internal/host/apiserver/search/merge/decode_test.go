package merge

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// TestAListHasABound in bytes and in values.
func TestAListHasABound(t *testing.T) {
	decode := func(text string) (map[string]any, error) {
		return Decode(&http.Response{Body: io.NopCloser(strings.NewReader(text))})
	}
	for name, text := range map[string]string{
		"bytes":  `{"a":"` + strings.Repeat("x", int(bounds.Searched.Piece.Bytes)) + `"}`,
		"values": `{"a":[` + strings.Repeat("{},", int(bounds.Searched.Piece.Values)) + "{}]}",
	} {
		if _, err := decode(text); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := decode(`{"a":"b"}`); err != nil || got["a"] != "b" {
		t.Errorf("%v, %v", got, err)
	}
}

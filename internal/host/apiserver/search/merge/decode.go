package merge

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// ErrTooLarge is the error of an answer that has more than what is held in memory of the answer of one member.
var ErrTooLarge = fmt.Errorf("the answer of the member has more than %d MiB or %d values",
	bounds.Searched.Piece.Bytes>>20, bounds.Searched.Piece.Values)

// Decode reads the object of an answer and closes it.
func Decode(response *http.Response) (map[string]any, error) {
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, bounds.Searched.Piece.Bytes+1))
	if err != nil {
		return nil, apierrors.NewServiceUnavailable("reading the answer of the member: " + err.Error())
	}
	if int64(len(text)) > bounds.Searched.Piece.Bytes || bounds.Values(text, bounds.Searched.Piece) != nil {
		return nil, ErrTooLarge
	}
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil {
		return nil, apierrors.NewServiceUnavailable("the answer of the member is no object: " + err.Error())
	}
	return object, nil
}

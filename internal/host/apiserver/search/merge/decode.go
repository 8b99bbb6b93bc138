package merge

import (
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// memberBytes bounds what is held in memory of the answer of one member, in bytes.
const memberBytes = 8 << 20

// ErrTooLarge is the error of an answer of more than memberBytes.
var ErrTooLarge = fmt.Errorf("the answer of the member has more than %d MiB", memberBytes>>20)

// Decode reads the object of an answer and closes it.
func Decode(response *http.Response) (map[string]any, error) {
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, memberBytes+1))
	if err != nil {
		return nil, apierrors.NewServiceUnavailable("reading the answer of the member: " + err.Error())
	}
	if len(text) > memberBytes {
		return nil, ErrTooLarge
	}
	var object map[string]any
	if err := utiljson.Unmarshal(text, &object); err != nil {
		return nil, apierrors.NewServiceUnavailable("the answer of the member is no object: " + err.Error())
	}
	return object, nil
}

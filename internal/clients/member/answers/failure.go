package answers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
)

// maxCauses is how many causes of a failure are read: the conflicts of one apply, and the fields of an object that are not valid.
const maxCauses = 1000

// cutFailure cuts the texts of an answer that a request failed. Of one that is too large, only the code remains.
func cutFailure(resp *http.Response) error {
	whole, err := io.ReadAll(resp.Body)
	switch status := (&metav1.Status{}); {
	case bounds.IsTooMuch(err):
		status = &apierrors.NewGenericServerResponse(resp.StatusCode, "", schema.GroupResource{}, "", "the answer is too large to be read", 0, true).ErrStatus
		whole = encode(status, resp)
	case err != nil:
		return fmt.Errorf("reading the answer: %w", err)
	case json.Unmarshal(whole, status) == nil && status.Kind == "Status":
		if CutStatus(status) {
			whole = encode(status, resp)
		}
	case len(whole) > bounds.MessageBytes: // text, of which client-go reads the beginning
		whole = []byte(bounds.Message(string(whole)))
	}
	type body struct {
		io.Reader
		io.Closer
	}
	resp.Body = body{bytes.NewReader(whole), resp.Body}
	return nil
}

// CutStatus cuts the texts of a failure, and returns whether there was one to cut.
func CutStatus(s *metav1.Status) (cut bool) {
	shorten := func(text *string, most int) {
		if len(*text) > most {
			*text, cut = bounds.Cut(*text, most), true
		}
	}
	shorten(&s.Message, bounds.FailureTextBytes)
	shorten((*string)(&s.Reason), bounds.NameBytes)
	if s.Details == nil {
		return cut
	}
	for _, name := range []*string{&s.Details.Name, &s.Details.Group, &s.Details.Kind, (*string)(&s.Details.UID)} {
		shorten(name, bounds.NameBytes)
	}
	if len(s.Details.Causes) > maxCauses {
		s.Details.Causes, cut = s.Details.Causes[:maxCauses], true
	}
	for i := range s.Details.Causes {
		cause := &s.Details.Causes[i]
		shorten(&cause.Message, bounds.FailureTextBytes)
		shorten(&cause.Field, bounds.MessageBytes)
		shorten((*string)(&cause.Type), bounds.NameBytes)
	}
	return cut
}

func encode(status *metav1.Status, resp *http.Response) []byte {
	status.APIVersion, status.Kind = "v1", "Status"
	text, _ := json.Marshal(status) // of plain fields: cannot fail
	resp.Header.Set("Content-Type", "application/json")
	resp.Header.Del("Content-Length")
	resp.ContentLength = int64(len(text))
	return text
}

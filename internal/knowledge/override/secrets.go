package override

import (
	"errors"
	"strings"
)

// hidden stands for the values of Secrets in what Explain returns.
const hidden = "(hidden)"

// errHidden takes the place of an error that may name the value which could not be edited.
var errHidden = errors.New("the value cannot be edited in this way; the reason is left out, since it may have a value of the Secret")

// secret returns whether the object is a Secret.
func (id identity) secret() bool { return id.kind == "Secret" && id.apiVersion == "v1" }

// hideValue removes from an error about a Secret what was read from it: only the overriders that take a value apart name it.
func (e *Error) hideValue() {
	if strings.HasPrefix(e.Edit, "imageOverrider") || strings.HasPrefix(e.Edit, "fieldOverrider") {
		e.Err = errHidden
	}
}

// hideValues removes the values from the edits of a Secret, those of all fields: an annotation may have them once more.
func hideValues(edits []Edit) {
	for i := range edits {
		if edits[i].From != nil {
			edits[i].From = hidden
		}
		if edits[i].To != nil {
			edits[i].To = hidden
		}
	}
}

package leader

import (
	"context"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
)

// AdmissionName is the name of Admission in the admission chain.
const AdmissionName = "FlagshipLeader"

// termHeader has the identity of the term whose loops make a request. A client that sends it has its own writes refused, and no more.
const termHeader = "Flagship-Term"

// termKey is the key of that identity in the context of a request.
type termKey struct{}

// Mark passes the term of a request to Admission.
func Mark(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if term := r.Header.Get(termHeader); term != "" {
			r = r.WithContext(context.WithValue(r.Context(), termKey{}, term))
		}
		next.ServeHTTP(w, r)
	})
}

// Admission refuses writes of loops whose term does not hold the lock any more. The transport has checked that already, but a process that
// was stopped goes on at any instruction, also inside the API server. There, a write compares the revision of the object that it read; if
// that has changed, a patch without a resource version is made again on the new object, and admitted again: then it is refused.
type Admission struct{ present []*atomic.Pointer[Term] }

var _ admission.ValidationInterface = &Admission{}

// NewAdmission makes the plugin. Present has the terms of this server: one, or another one for the loops of members.
func NewAdmission(present ...*atomic.Pointer[Term]) *Admission { return &Admission{present} }

// Handles implements admission.Interface.
func (*Admission) Handles(operation admission.Operation) bool { return operation != admission.Connect }

// Validate implements admission.ValidationInterface.
func (p *Admission) Validate(ctx context.Context, _ admission.Attributes, _ admission.ObjectInterfaces) error {
	identity, marked := ctx.Value(termKey{}).(string)
	if !marked {
		return nil
	}
	for _, present := range p.present {
		if term := present.Load(); term != nil && term.Identity() == identity && term.Check() == nil {
			return nil
		}
	}
	return apierrors.NewServiceUnavailable(ErrNotLeader.Error())
}

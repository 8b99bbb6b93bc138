package objects

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/member"
)

// access is how the objects of one Work are written in a member.
type Access struct {
	Conn *member.Conn
	// account names the ServiceAccount that writes, the one in the namespace of each object. Empty: the control plane's own.
	Account string
	// Drift and Acknowledged are the values of the annotations DriftAnnotation and DriftAcknowledgedAnnotation of the Work.
	Drift, Acknowledged string
	// Ignored are the fields that are left to the member, as pointers.
	Ignored []string
	// Applied is whether the Work reports its present generation applied: what the member lacks of it was deleted there.
	Applied bool
	// Hold is what must not be done there.
	Hold member.Hold
	// Ended returns whether the object of a manifest ran to its end there: it is not made again. Nil: none did. It is a function because what
	// others delete while a Work is applied counts.
	Ended func(manifest *unstructured.Unstructured) bool
	// ReadFirst has objects that no complete watch shows read before they are written: they may be as they should be.
	ReadFirst bool
}

// accountFor is the account that writes the objects of a Work: the Cluster's, which its operator chose, or else the one the
// Work carries from its policy. A policy cannot choose another one than the Cluster does, which could have more rights.
func AccountFor(cluster *clusterv1alpha1.Cluster, work *workv1alpha1.Work) string {
	if account, ok := cluster.Annotations[clusterv1alpha1.ApplyAsAnnotation]; ok {
		return account
	}
	return work.Annotations[clusterv1alpha1.ApplyAsAnnotation]
}

// client is a client for objects of a resource in a namespace, which is empty for kinds without. Those are written as the
// control plane: they have no account in a namespace.
func (s Access) client(resource schema.GroupVersionResource, namespace string) (dynamic.ResourceInterface, error) {
	if namespace == "" {
		return s.Conn.Dynamic().Resource(resource), nil
	}
	if s.Account == "" {
		return s.Conn.Dynamic().Resource(resource).Namespace(namespace), nil
	}
	if problems := validation.IsDNS1123Subdomain(s.Account); len(problems) > 0 {
		return nil, fmt.Errorf("the annotation %s says %q, which is no name of a ServiceAccount: %s", clusterv1alpha1.ApplyAsAnnotation, s.Account, problems[0])
	}
	impersonating, err := s.Conn.DynamicAs(s.user(namespace))
	if err != nil {
		return nil, err
	}
	return impersonating.Resource(resource).Namespace(namespace), nil
}

func (s Access) user(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + s.Account
}

// who names the account that writes in a namespace, for messages.
func (s Access) who(namespace string) string {
	if s.Account == "" || namespace == "" {
		return "the account of the control plane"
	}
	return fmt.Sprintf("the ServiceAccount %s/%s", namespace, s.Account)
}

// forbiddenError is a write that the member refuses to the account that made it.
type forbidden struct{ error }

// Unwrap returns the refusal itself.
func (e forbidden) Unwrap() error { return e.error }

// Forbidden marks an error as a refusal to the account that writes.
func Forbidden(err error) error { return forbidden{err} }

// IsForbidden returns whether an error is marked so.
func IsForbidden(err error) bool {
	var refused forbidden
	return errors.As(err, &refused)
}

// Only returns whether there are errors and all of them are of a kind.
func Only(is func(error) bool, errs []error) bool {
	return len(errs) > 0 && !slices.ContainsFunc(errs, func(err error) bool { return !is(err) })
}

// refused adds to a refusal by the member's authorization or admission which account it concerns, and what to do.
func (t target) refused(err error) error {
	if !apierrors.IsForbidden(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	return forbidden{fmt.Errorf("%w. %s", err, t.advice(err.Error()))}
}

// advice is what to do about a refusal. Authorization and admission answer with the same code and reason, so that the text has to tell which
// of them it was: an account "cannot" do something, or may not grant what it does not have.
func (t target) advice(refusal string) string {
	switch {
	case strings.Contains(refusal, "exceeded quota:") || strings.Contains(refusal, "failed quota:") || strings.Contains(refusal, "insufficient quota"):
		return "A ResourceQuota of the namespace in the cluster refuses it: raise the quota there, or let the object need less of it, for example by an override"
	case !strings.Contains(refusal, `" cannot `) && !strings.Contains(refusal, "attempting to grant"):
		return "The cluster's admission refuses it, and no right is missing: change the object, for example by an override, or the rule in the cluster"
	}
	hint := fmt.Sprintf("If a right is missing, grant it there to %s", t.who(t.Object.Namespace))
	if t.Account == "" || t.Object.Namespace == "" {
		hint += fmt.Sprintf(", for example with flagship join %s --rights namespaced --kinds", t.Conn.Name())
	}
	return hint
}

// errDispatchingHeld means that a write waits for a person.
var errDispatchingHeld = errors.New("writing to the cluster waits for a person: see the condition DispatchingHeld of the Cluster")

// IsDispatchingHeld returns whether a write waits for a person.
func IsDispatchingHeld(err error) bool { return errors.Is(err, errDispatchingHeld) }

// unseen means that objects of a resource cannot be followed in the member, or is nil. They are written, but what is changed
// there is neither seen nor repaired.
func (t target) unseen() error {
	if err := t.Conn.Refused(t.Resource); err != nil {
		return forbidden{fmt.Errorf("it is written, but not followed: its status is not known and changes of it are not repaired, because the control plane may not list and watch %s: %w",
			t.Resource.GroupResource(), err)}
	}
	return nil
}

// Unavailable returns whether the member could not be reached.
func Unavailable(err error) bool {
	var u *member.UnavailableError
	return errors.As(err, &u)
}

// transientError is a failure that is expected to be over within moments, such as a namespace that is on its way. It is
// retried like any other, but not shown to the user before it has lasted.
type transientError struct{ error }

func Transient(err error) error { return transientError{err} }

// Unwrap returns the failure itself.
func (e transientError) Unwrap() error { return e.error }

func IsTransient(err error) bool {
	var p transientError
	return errors.As(err, &p)
}

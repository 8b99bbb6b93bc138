package compose

import (
	"errors"
	"fmt"
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// ReasonOf names what the failures of rendering are about.
func ReasonOf(failure error) string {
	if refused, is := errors.AsType[*RefusedError](failure); is {
		return refused.Reason
	}
	parts := Flatten(failure)
	switch {
	case slices.ContainsFunc(parts, IsForbidden):
		return workv1alpha2.ForbiddenReason
	case slices.ContainsFunc(parts, func(err error) bool { return !IsConversion(err) }):
		return workv1alpha2.OverrideFailedReason
	}
	return workv1alpha2.TranslationFailedReason
}

// refusal says that a Work would carry an object that is not the binding's template, or that must not leave the control
// plane. Trying again does not help.
type ForbiddenError struct{ Cause error }

func (e *ForbiddenError) Error() string { return e.Cause.Error() }

func (e *ForbiddenError) Unwrap() error { return e.Cause }

func IsForbidden(err error) bool {
	_, is := errors.AsType[*ForbiddenError](err)
	return is
}

// untranslatable says that a cluster cannot be given the template in terms it knows.
type ConversionError struct {
	cluster string
	cause   error
}

func (e *ConversionError) Error() string {
	return fmt.Sprintf("translating for cluster %s: %v", e.cluster, e.cause)
}

func (e *ConversionError) Unwrap() error { return e.cause }

// refusedWork says that a Work cannot be written as long as its template and the policies are what they are.
type RefusedError struct {
	// cluster is empty if the reason concerns all clusters.
	Cluster string
	// reason is that of the condition Rendered.
	Reason string
	Cause  error
}

func (e *RefusedError) Error() string {
	if e.Cluster == "" {
		return e.Cause.Error()
	}
	return fmt.Sprintf("the Work for cluster %s: %v", e.Cluster, e.Cause)
}

func (e *RefusedError) Unwrap() error { return e.Cause }

func IsConversion(err error) bool {
	_, is := errors.AsType[*ConversionError](err)
	return is
}

// Flatten lists the parts of a joined error.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // The joined error itself is meant, not one inside another.
	if !ok {
		return []error{err}
	}
	var parts []error
	for _, part := range joined.Unwrap() {
		parts = append(parts, Flatten(part)...)
	}
	return parts
}

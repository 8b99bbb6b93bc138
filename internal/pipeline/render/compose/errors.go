package compose

import (
	"errors"
	"fmt"
	"slices"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

// ReasonOf returns the reason of the condition Rendered for a failure.
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

// ForbiddenError means that a Work would have an object that is not the binding's template, or that must not leave the control
// plane. Another try does not help.
type ForbiddenError struct{ Cause error }

func (e *ForbiddenError) Error() string { return e.Cause.Error() }

func (e *ForbiddenError) Unwrap() error { return e.Cause }

// IsForbidden returns whether an error is a ForbiddenError.
func IsForbidden(err error) bool {
	_, is := errors.AsType[*ForbiddenError](err)
	return is
}

// ConversionError means that the template cannot be converted to what a cluster serves.
type ConversionError struct {
	cluster string
	cause   error
}

func (e *ConversionError) Error() string {
	return fmt.Sprintf("translating for cluster %s: %v", e.cluster, e.cause)
}

func (e *ConversionError) Unwrap() error { return e.cause }

// RefusedError means that a Work cannot be written as long as its template and the policies are what they are.
type RefusedError struct {
	// Cluster is empty if the reason concerns all clusters.
	Cluster string
	// Reason is that of the condition Rendered.
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

// IsConversion returns whether an error is a ConversionError.
func IsConversion(err error) bool {
	_, is := errors.AsType[*ConversionError](err)
	return is
}

// Flatten returns the parts of a joined error.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // errors.As would find a joined error inside another one, too
	if !ok {
		return []error{err}
	}
	var parts []error
	for _, part := range joined.Unwrap() {
		parts = append(parts, Flatten(part)...)
	}
	return parts
}

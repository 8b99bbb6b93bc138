package v1alpha1

import "strings"

// MemberFinalizersAnnotation on an object has the finalizers, separated by commas, that its copies in members get. Finalizers of the
// object itself are not sent: their controllers run on the control plane.
const MemberFinalizersAnnotation = "flagship.io/member-finalizers"

// MaxMemberFinalizers is how many there may be.
const MaxMemberFinalizers = 16

// MemberFinalizers reads the annotation.
func MemberFinalizers(annotations map[string]string) []string {
	return strings.FieldsFunc(annotations[MemberFinalizersAnnotation], func(r rune) bool { return r == ',' || r == ' ' })
}

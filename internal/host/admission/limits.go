package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

// LimitsName is the name of Limits in the admission chain.
const LimitsName = "FlagshipNamespaceLimits"

// Limits refuses users to store more in a namespace than it may have, and to change the limits of a namespace without the
// right to. Deletions are not refused, nor are updates that make an object smaller or are part of its deletion. Neither is
// what the control plane itself writes, or the holder of the break-glass certificate, but for records of what members have.
type Limits struct {
	check      func(namespace string, creates bool, grows func() bool) error
	record     func(before, after *workv1alpha1.Work) error
	validate   func(annotations map[string]string) field.ErrorList
	authorizer authorizer.UnconditionalAuthorizer
}

var (
	_ admission.ValidationInterface            = &Limits{}
	_ initializer.WantsUnconditionalAuthorizer = &Limits{}
)

// NewLimits makes the plugin. Check returns an error if a namespace must not get another object, or must not grow; it answers
// from memory. Record returns an error if a record of a member must not be stored. Validate checks the annotations of a Namespace that
// hold its limits. They are functions because the limits are a feature, which admission does not import.
func NewLimits(
	check func(namespace string, creates bool, grows func() bool) error, record func(before, after *workv1alpha1.Work) error,
	validate func(map[string]string) field.ErrorList,
) *Limits {
	return &Limits{check: check, record: record, validate: validate}
}

// SetUnconditionalAuthorizer gives the plugin the API server's authorizer.
func (l *Limits) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) { l.authorizer = a }

// ValidateInitialization makes sure that the API server gave the plugin what it needs.
func (l *Limits) ValidateInitialization() error {
	if l.authorizer == nil {
		return errors.New("the authorizer is missing")
	}
	return nil
}

// Handles implements admission.Interface.
func (l *Limits) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update
}

// Validate refuses a write.
func (l *Limits) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return l.namespace(ctx, a)
	}
	if work, ok := a.GetObject().(*workv1alpha1.Work); ok && a.GetSubresource() == "" && stores(a) && workv1alpha1.IsReport(work) {
		before, _ := a.GetOldObject().(*workv1alpha1.Work)
		if err := l.record(before, work); err != nil { // also of a member that the control plane itself reads
			return admission.NewForbidden(a, err)
		}
	}
	if a.GetNamespace() == "" || !stores(a) || slices.Contains(a.GetUserInfo().GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	creates := a.GetOperation() == admission.Create
	// The number of Events is limited by their rate, and the limit of objects is for what stays.
	counts := creates && a.GetKind().Kind != "Event"
	if err := l.check(a.GetNamespace(), counts, func() bool { return creates || grows(a) }); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// stores returns whether a request stores something that stays: reviews are answered only.
func stores(a admission.Attributes) bool {
	switch a.GetKind().Group {
	case "authorization.k8s.io", "authentication.k8s.io":
		return false
	}
	if a.GetOperation() == admission.Create {
		return a.GetSubresource() == ""
	}
	object, ok := a.GetObject().(metav1.Object)
	return !ok || object.GetDeletionTimestamp() == nil
}

// grows returns whether an update makes an object larger. It is called for namespaces that are at their limit.
func grows(a admission.Attributes) bool {
	before, err := size(a.GetOldObject())
	if err != nil {
		return true
	}
	after, err := size(a.GetObject())
	return err != nil || after > before
}

func size(object runtime.Object) (int, error) {
	data, err := json.Marshal(object)
	return len(data), err
}

// namespace refuses to set, change or remove limits of a Namespace without the right to update Namespaces everywhere. A Role
// in the namespace may allow to update this one, with all resources for example; its holder must not raise his own limit.
// Subresources of a Namespace change its annotations, too.
func (l *Limits) namespace(ctx context.Context, a admission.Attributes) error {
	object, ok := a.GetObject().(metav1.Object)
	if !ok {
		return nil
	}
	var before map[string]string
	if old, ok := a.GetOldObject().(metav1.Object); ok {
		before = old.GetAnnotations()
	}
	after := object.GetAnnotations()
	if !slices.ContainsFunc(operatorsAnnotations, func(key string) bool { return changes(before, after, key) }) {
		return nil
	}
	if errs := append(l.validate(after), clusterv1alpha1.ValidateExports(after)...); len(errs) > 0 {
		return invalid(a.GetKind().GroupKind(), a.GetName(), errs)
	}
	decision, _, err := l.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", ResourceRequest: true, APIVersion: "v1", Resource: "namespaces", Name: object.GetName(),
	})
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("checking the right to update namespaces: %w", err))
	}
	return admission.NewForbidden(a, fmt.Errorf("the annotations %s hold the limits of the namespace: user %q needs the right to update namespaces from a ClusterRoleBinding",
		strings.Join(operatorsAnnotations, ", "), a.GetUserInfo().GetName()))
}

// operatorsAnnotations of a Namespace bound what is stored in it, and who exports from it.
var operatorsAnnotations = []string{
	workv1alpha1.ObjectLimitAnnotation, workv1alpha1.SizeLimitAnnotation, clusterv1alpha1.ExportersAnnotation, clusterv1alpha1.ExportLimitAnnotation,
}

func changes(before, after map[string]string, key string) bool {
	old, had := before[key]
	value, has := after[key]
	return had != has || old != value
}

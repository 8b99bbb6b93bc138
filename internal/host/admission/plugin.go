package admission

import (
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"github.com/flagship-k8s/flagship/api/crds"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Name is the plugin's name in the admission chain.
const Name = "FlagshipKinds"

// Plugin completes and checks objects of our kinds, and refuses to delete protected objects of any kind.
type Plugin struct {
	rules    map[schema.GroupKind]rule
	inactive map[schema.GroupKind]string
	Config
}

// Config is what the plugin needs. NewID and Never are required.
type Config struct {
	// NewID returns a new permanent id, a UUID.
	NewID func() string
	// Never returns which objects, or kinds if the name is empty, are never sent to members; it is a function because package hubstore,
	// which is not imported here, decides that.
	Never func(kind schema.GroupVersionKind, namespace, name string) bool
	// Endpoints returns whether the control plane has EndpointSlices of a Service, or another address for it; nil for a plugin that does
	// not know.
	Endpoints func(ctx context.Context, namespace, name string) bool
	// Publish publishes an event; nil for a plugin that publishes none.
	Publish func(events.Event)
	// ReplicasUnknown returns whether a kind is one of a definition whose replicas cannot be read; it is a function because the interpreter, which is
	// not built yet when the API server starts, decides that. Nil for a plugin that does not know, such as that of a preview.
	ReplicasUnknown func(kind schema.GroupVersionKind) bool
	// AllowNoExecuteTaintPolicy accepts ClusterTaintPolicies with taints that evict.
	AllowNoExecuteTaintPolicy bool
}

var (
	_ admission.MutationInterface   = &Plugin{}
	_ admission.ValidationInterface = &Plugin{}
)

// New makes the plugin.
func New(config Config) *Plugin {
	return &Plugin{rules: rules(config), inactive: crds.NotYetActive(), Config: config}
}

// Handles implements admission.Interface.
func (p *Plugin) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update || operation == admission.Delete
}

// Admit completes an object of ours.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	object, ok := written(a)
	if !ok {
		return nil
	}
	old, _ := a.GetOldObject().(subject)
	kind := a.GetKind().GroupKind()
	p.warnSelectors(ctx, kind, object, old)
	warnTaints(ctx, kind, object, old)
	warnWeights(ctx, kind, object, old)
	p.warnDivision(ctx, kind, object, old)
	warnContainers(ctx, kind, object, old)
	stampID(kind, object, old, ofControlPlane(a), p.NewID)
	guard(kind, object)
	detach(a, object)
	rule, ok := p.rules[kind]
	custom, untyped := object.(*unstructured.Unstructured)
	if !ok || rule.complete == nil || !untyped || sameSpec(object, old) {
		return nil
	}
	if err := rule.complete(custom); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("reading %s: %v", kind.Kind, err))
	}
	return nil
}

// Validate refuses what is wrong, after every other plugin has had its say in what the object is.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetOperation() == admission.Delete {
		return refuseProtected(a)
	}
	object, ok := written(a)
	if !ok {
		return nil
	}
	warnDropped(ctx, a)
	kind := a.GetKind().GroupKind()
	if text, inactive := p.inactive[kind]; inactive && a.GetOperation() == admission.Create {
		warning.AddWarning(ctx, "", text)
	}
	old, _ := a.GetOldObject().(subject)
	p.reportStays(ctx, a, object)
	p.warnServices(ctx, object, old)
	p.warnFinalizers(ctx, a, object)
	p.warnAnnotations(ctx, a, object, old)
	errs := append(validateID(kind, object, old), validateFinalizers(object, old)...)
	// What was stored before a rule existed must still be able to lose its finalizers and labels.
	if rule, ok := p.rules[kind]; ok && (!sameSpec(object, old) || rule.options && !sameOptions(object, old)) {
		found, err := rule.check(object)
		if err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("reading %s: %v", kind.Kind, err))
		}
		errs = append(errs, found...)
	}
	return invalid(kind, a.GetName(), errs)
}

// sameOptions returns whether an update leaves the annotations as they are that are options of a policy.
func sameOptions(object, old subject) bool {
	return old != nil && maps.Equal(optionsOf(object), optionsOf(old))
}

// optionsOf are the annotations of an object in our own domain.
func optionsOf(object subject) map[string]string {
	options := maps.Clone(object.GetAnnotations())
	maps.DeleteFunc(options, func(key, _ string) bool { return !strings.HasPrefix(key, "flagship.io/") })
	return options
}

// subject is an object that is written: a custom resource, or one of a kind that is served natively.
type subject interface {
	metav1.Object
	runtime.Object
}

// written is the object that is created or updated, unless only a subresource of it is.
func written(a admission.Attributes) (subject, bool) {
	if a.GetOperation() == admission.Delete || a.GetSubresource() != "" {
		return nil, false
	}
	object, ok := a.GetObject().(subject)
	return object, ok
}

func invalid(kind schema.GroupKind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind, name, errs)
}

package local

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"time"

	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errHasManagers is returned for an object with managed fields: these are counted by upstream's handlers alone.
var errHasManagers = errors.New("the object has managed fields")

// self is whom the requests of this process come from, as the authenticator of its loopback token has it.
var self = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// rules are those for every write, whichever way it comes.
type rules struct {
	admission admission.Interface
	objects   admission.ObjectInterfaces
	authorize authorizer.Authorizer
	audit     audit.PolicyRuleEvaluator
	timeout   time.Duration
}

func newRules(config genericapiserver.Config, scheme *runtime.Scheme) rules {
	return rules{
		admission: config.AdmissionControl, objects: admission.NewObjectInterfacesFromScheme(scheme), authorize: config.Authorization.Authorizer,
		audit: config.AuditPolicyRuleEvaluator, timeout: config.RequestTimeout,
	}
}

// write is one write of an object.
type write struct {
	Kind
	rules
	verb, namespace, name, subresource string
	// withStatus is true if the status is written, too.
	withStatus bool
}

// attributes are what authorization and audit decide by.
func (w write) attributes() authorizer.AttributesRecord {
	return authorizer.AttributesRecord{
		User: self, Verb: w.verb, Namespace: w.namespace, APIGroup: w.GVK.Group, APIVersion: w.GVK.Version, Resource: w.resource().Resource,
		Subresource: w.subresource, Name: w.name, ResourceRequest: true, Path: w.path(),
	}
}

// path is that of the request which has the same effect.
func (w write) path() string {
	parts := []string{"/apis", w.GVK.Group, w.GVK.Version}
	if w.namespace != "" {
		parts = append(parts, "namespaces", w.namespace)
	}
	return path.Join(append(parts, w.resource().Resource, w.name, w.subresource)...)
}

// admissible returns whether the write needs nothing of what only the handlers of requests have: an audit event, or a span.
func (w write) admissible(ctx context.Context) bool {
	return !trace.SpanFromContext(ctx).IsRecording() && (w.audit == nil || w.audit.EvaluatePolicyRule(w.attributes()).Level == auditinternal.LevelNone)
}

// methods are those of requests, by verb.
var methods = map[string]string{"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete}

// do authorizes the write, makes it and counts it as a request.
func (w write) do(ctx context.Context, act func(context.Context) (runtime.Object, error)) (runtime.Object, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	info := &genericapirequest.RequestInfo{
		IsResourceRequest: true, Path: w.path(), Verb: w.verb, APIPrefix: "apis", APIGroup: w.GVK.Group, APIVersion: w.GVK.Version,
		Namespace: w.namespace, Resource: w.resource().Resource, Subresource: w.subresource, Name: w.name,
	}
	ctx = genericapirequest.WithRequestInfo(genericapirequest.WithUser(genericapirequest.WithNamespace(ctx, w.namespace), self), info)
	out, err := w.authorized(ctx, act)
	if errors.Is(err, errHasManagers) {
		return nil, err // a request follows, which is counted
	}
	request := (&http.Request{Method: methods[w.verb], URL: &url.URL{Path: info.Path}, Header: http.Header{}}).WithContext(ctx)
	metrics.MonitorRequest(request, request.Method, info.APIGroup, info.APIVersion, info.Resource, info.Subresource, metrics.CleanScope(info), metrics.APIServerComponent,
		false, "", w.code(err), 0, time.Since(start))
	return out, err
}

func (w write) authorized(ctx context.Context, act func(context.Context) (runtime.Object, error)) (runtime.Object, error) {
	attributes := w.attributes()
	decision, reason, err := w.authorize.Authorize(ctx, attributes)
	if decision != authorizer.DecisionAllow {
		if err == nil {
			err = errors.New(reason)
		}
		return nil, apierrors.NewForbidden(w.resource(), w.name, err)
	}
	return act(ctx)
}

func (w write) code(err error) int {
	switch {
	case err == nil && w.verb == "create":
		return http.StatusCreated
	case err == nil:
		return http.StatusOK
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return http.StatusInternalServerError
}

// review has the write admitted, and changed by what admits it. Old is nil for a new object, object for one that is deleted.
func (w write) review(ctx context.Context, operation admission.Operation, object, old, options runtime.Object) error {
	mutating, ok := w.admission.(admission.MutationInterface)
	if !ok || !mutating.Handles(operation) {
		return nil
	}
	return mutating.Admit(ctx, w.record(operation, object, old, options), w.objects)
}

func (w write) record(operation admission.Operation, object, old, options runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, old, w.GVK, w.namespace, w.name, w.GVK.GroupVersion().WithResource(w.resource().Resource), w.subresource,
		operation, options, false, self)
}

// store returns where the main resource is written.
func (w write) store() *registry.Store {
	if w.withStatus {
		return w.WithStatus
	}
	return w.Store
}

// create stores a new object.
func (w write) create(ctx context.Context, object client.Object) (runtime.Object, error) {
	return w.do(ctx, func(ctx context.Context) (runtime.Object, error) {
		options := &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{Kind: "CreateOptions", APIVersion: metav1.SchemeGroupVersion.String()}}
		if err := w.review(ctx, admission.Create, object, nil, options); err != nil {
			return nil, err
		}
		valid := rest.AdmissionToValidateObjectFunc(w.admission, w.record(admission.Create, object, nil, options), w.objects)
		return w.store().Create(ctx, object, valid, options)
	})
}

// change stores what next makes of the object.
func (w write) change(ctx context.Context, next rest.TransformFunc) (runtime.Object, error) {
	return w.do(ctx, func(ctx context.Context) (runtime.Object, error) {
		options := &metav1.UpdateOptions{TypeMeta: metav1.TypeMeta{Kind: "UpdateOptions", APIVersion: metav1.SchemeGroupVersion.String()}}
		admit := func(ctx context.Context, object, old runtime.Object) (runtime.Object, error) {
			return object, w.review(ctx, admission.Update, object, old, options)
		}
		info := rest.DefaultUpdatedObjectInfo(nil, w.existing(next), admit)
		valid := rest.AdmissionToValidateObjectUpdateFunc(w.admission, w.record(admission.Update, nil, nil, options), w.objects)
		var to rest.Updater = w.store()
		if w.subresource != "" {
			to = w.Subresources[w.subresource]
		}
		out, _, err := to.Update(ctx, w.name, info, rest.ValidateAllObjectFunc, valid, false, options)
		return out, err
	})
}

// existing has next applied to an object that exists and has no managed fields.
func (w write) existing(next rest.TransformFunc) rest.TransformFunc {
	return func(ctx context.Context, object, old runtime.Object) (runtime.Object, error) {
		stored := old.(client.Object)
		switch {
		case stored.GetUID() == "":
			return nil, apierrors.NewNotFound(w.resource(), w.name)
		case len(stored.GetManagedFields()) > 0:
			return nil, errHasManagers
		}
		return next(ctx, object, old)
	}
}

// remove deletes the object.
func (w write) remove(ctx context.Context, options *metav1.DeleteOptions) (runtime.Object, error) {
	return w.do(ctx, func(ctx context.Context) (runtime.Object, error) {
		valid := rest.AdmissionToValidateObjectDeleteFunc(w.admission, w.record(admission.Delete, nil, nil, options), w.objects)
		out, _, err := w.Delete(ctx, w.name, valid, options)
		return out, err
	})
}

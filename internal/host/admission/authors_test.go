package admission_test

import (
	"testing"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/flagship-k8s/flagship/internal/host/admission"
	"github.com/flagship-k8s/flagship/internal/knowledge/history"
)

// TestAuthors: who requests a change is stored, unless it is a dry run, of a subresource, or of the control plane.
func TestAuthors(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "5"}}
	update := history.Change{UID: "u", From: "5"}
	for name, tc := range map[string]struct {
		operation   upstream.Operation
		subresource string
		dryRun      bool
		user        string
		of          history.Change
		want        string
	}{
		"Create":      {operation: upstream.Create, user: "alice", of: history.Change{UID: "u"}, want: "alice"},
		"Update":      {operation: upstream.Update, user: "alice", of: update, want: "alice"},
		"Delete":      {operation: upstream.Delete, user: "alice", of: history.Change{UID: "u", Deletion: true}, want: "alice"},
		"DryRun":      {operation: upstream.Update, dryRun: true, user: "alice", of: update},
		"Status":      {operation: upstream.Update, subresource: "status", user: "alice", of: update},
		"OwnRequests": {operation: upstream.Update, user: user.APIServerUser, of: update},
	} {
		t.Run(name, func(t *testing.T) {
			var authors history.Authors
			var now, old runtime.Object = object, object
			if tc.operation == upstream.Create {
				old = nil
			} else if tc.operation == upstream.Delete {
				now = nil
			}
			a := upstream.NewAttributesRecord(now, old, corev1.SchemeGroupVersion.WithKind("ConfigMap"), "shop", "c",
				corev1.SchemeGroupVersion.WithResource("configmaps"), tc.subresource, tc.operation, nil, tc.dryRun, &user.DefaultInfo{Name: tc.user})
			span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
			if err := admission.NewAuthors(&authors).Validate(trace.ContextWithSpanContext(t.Context(), span), a, nil); err != nil {
				t.Fatal(err)
			}
			causes := history.NewCauses(&authors)
			if causes.Changed("shop/c", tc.of); causes.Of("shop/c").IsValid() != (tc.want != "") {
				t.Errorf("the span of the request is %v", causes.Of("shop/c"))
			}
			if got := authors.Of(tc.of); got != tc.want {
				t.Errorf("the author is %q, want %q", got, tc.want)
			}
		})
	}
	if err := admission.NewAuthors(&history.Authors{}).Validate(t.Context(), upstream.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		"shop", "", corev1.SchemeGroupVersion.WithResource("configmaps"), "", upstream.Delete, nil, false, &user.DefaultInfo{Name: "alice"}), nil); err != nil {
		t.Errorf("the deletion of a collection: %v", err)
	}
}

package filters

import (
	"mime"
	"net/http"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// RefuseProtobuf answers 415 to a protobuf body sent to a custom resource. Upstream offers protobuf
// for them, has no strict decoder for it and panics.
func RefuseProtobuf(next http.Handler, isCustomResource func(group, resource string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
			next.ServeHTTP(w, r)
			return
		}
		mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		info, ok := request.RequestInfoFrom(r.Context())
		if err != nil || mediaType != runtime.ContentTypeProtobuf || !ok || !info.IsResourceRequest ||
			!isCustomResource(info.APIGroup, info.Resource) {
			next.ServeHTTP(w, r)
			return
		}
		gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		refusal := errors.NewGenericServerResponse(http.StatusUnsupportedMediaType, info.Verb,
			gv.WithResource(info.Resource).GroupResource(), info.Name, "custom resources take JSON or YAML, not protobuf", 0, false)
		responsewriters.ErrorNegotiated(refusal, legacyscheme.Codecs, gv, w, r)
	})
}

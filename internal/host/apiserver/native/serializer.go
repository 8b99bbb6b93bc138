package native

import "k8s.io/apimachinery/pkg/runtime"

// WithoutProtobuf leaves JSON and YAML: the kinds have no other form.
type WithoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes are the ones a client can choose from.
func (s WithoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	var kept []runtime.SerializerInfo
	for _, info := range s.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeProtobuf {
			kept = append(kept, info)
		}
	}
	return kept
}

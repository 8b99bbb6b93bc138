package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestItemsOfListsHaveNoKind(t *testing.T) {
	raw := []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`)
	decode := func(codec runtime.Codec, item runtime.Object) runtime.Object {
		t.Helper()
		decoder := untyped{etcd3.NewDefaultDecoder(codec, storage.APIObjectVersioner{})}
		decoded, err := decoder.DecodeListItem(t.Context(), raw, 7, func() runtime.Object { return item })
		if err != nil {
			t.Fatal(err)
		}
		return decoded
	}
	pod := decode(scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), &corev1.Pod{}).(*corev1.Pod)
	if pod.TypeMeta != (metav1.TypeMeta{}) || pod.Name != "web" || pod.ResourceVersion != "7" {
		t.Errorf("decoded %+v", pod)
	}
	if custom := decode(unstructured.UnstructuredJSONScheme, &unstructured.Unstructured{}); custom.GetObjectKind().GroupVersionKind().Kind != "Pod" {
		t.Errorf("decoded %+v", custom)
	}
	if _, err := (untyped{etcd3.NewDefaultDecoder(unstructured.UnstructuredJSONScheme, storage.APIObjectVersioner{})}).DecodeListItem(
		t.Context(), []byte("{"), 7, func() runtime.Object { return &unstructured.Unstructured{} }); err == nil {
		t.Error("what cannot be read is read")
	}
}

package overlay

import (
	"cmp"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
)

// compare orders references by kind, namespace and name.
func compare(a, b hubstore.Ref) int {
	return cmp.Or(strings.Compare(a.GroupVersionKind.String(), b.GroupVersionKind.String()), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// sameContent compares two states of an object without metadata and status.
func sameContent(a, b *unstructured.Unstructured) bool {
	content := func(obj *unstructured.Unstructured) map[string]any {
		out := map[string]any{}
		for field, value := range obj.Object {
			if field != "metadata" && field != "status" {
				out[field] = value
			}
		}
		return out
	}
	return reflect.DeepEqual(content(a), content(b))
}

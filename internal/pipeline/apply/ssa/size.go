package ssa

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ExplainSize adds the size of an object and the limit to an error by which an API server refuses it for its size; it returns any other error
// as it is. The error of etcd has no status of its own, only its text.
func ExplainSize(obj *unstructured.Unstructured, err error) error {
	if err == nil || !apierrors.IsRequestEntityTooLargeError(err) && !strings.Contains(err.Error(), "etcdserver: request is too large") {
		return err
	}
	raw, wrong := Encode(obj)
	if wrong != nil {
		return wrong
	}
	return fmt.Errorf("the object has %d bytes of JSON, and its storage, which takes 1.5 MiB by default, has with it which fields are set by whom: %w", len(raw), err)
}

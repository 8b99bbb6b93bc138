package ssa_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/flagship-k8s/flagship/internal/pipeline/apply/ssa"
)

func TestARefusalForTheSizeNamesIt(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap"}}
	for name, refusal := range map[string]error{
		"etcd":      apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
		"apiserver": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
	} {
		if err := ssa.ExplainSize(obj, refusal); !errors.Is(err, refusal) || !strings.Contains(err.Error(), "the object has 20 bytes of JSON") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, other := range []error{nil, errors.New("other")} {
		if err := ssa.ExplainSize(obj, other); !errors.Is(err, other) {
			t.Errorf("%v becomes %v", other, err)
		}
	}
}

package membership

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/flagship-k8s/flagship/internal/features/enroll/memberaccount"
)

// TestJoiningWhileTheNamespaceGoes: the namespace that an earlier membership left may be gone after it was applied, and before the account is.
func TestJoiningWhileTheNamespaceGoes(t *testing.T) {
	client := fake.NewClientset()
	attempts := 0
	client.PrependReactor("patch", "serviceaccounts", func(ktesting.Action) (bool, runtime.Object, error) {
		if attempts++; attempts > 1 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "karmada-cluster")
	})
	if err := installPatiently(t.Context(), memberaccount.Account{Name: "karmada-a"}, client); err != nil {
		t.Error(err)
	}
	if attempts != 2 {
		t.Errorf("the account was applied %d times, want another time after the namespace was gone", attempts)
	}
}

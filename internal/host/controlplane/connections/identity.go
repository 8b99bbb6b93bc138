package connections

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	identityPause    = 50 * time.Millisecond
	identityPatience = time.Minute
)

// Identity returns the id of this control plane: the uid of its namespace kube-system, which its API server makes at the
// first start and never again. It lives in the storage, so that replicas on one storage, and a control plane that is
// restored from a backup of it, have the same id.
func Identity(ctx context.Context, kube kubernetes.Interface) (string, error) {
	id := ""
	err := wait.PollUntilContextTimeout(ctx, identityPause, identityPatience, true, func(ctx context.Context) (bool, error) {
		ns, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		id = string(ns.UID)
		return true, nil
	})
	if err != nil {
		return "", fmt.Errorf("reading the id of the control plane (the uid of its namespace %s): %w", metav1.NamespaceSystem, err)
	}
	return id, nil
}

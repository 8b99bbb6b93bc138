package roles

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// operatorsRecord is the ConfigMap that records that the operators received their rights. While it is there they are not given
	// again, so that they stay taken away.
	operatorsRecord = "flagship-operators"
	// operatorsPoll is how often it is checked whether the rights are in effect.
	operatorsPoll = 25 * time.Millisecond
)

// BindOperators gives the group of the default kubeconfig all rights, once in the life of a control plane, and returns when
// they are in effect.
func BindOperators(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client for the operators' rights: %w", err)
	}
	records := client.CoreV1().ConfigMaps(clusterv1alpha1.SystemNamespace)
	_, err = records.Get(ctx, operatorsRecord, metav1.GetOptions{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading whether the operators have got their rights: %w", err)
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: clusterv1alpha1.OperatorsGroup},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: clusterv1alpha1.OperatorsGroup}},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err): // from a start that was interrupted, or made by a user on purpose
	case err != nil:
		return fmt.Errorf("binding the operators: %w", err)
	default:
		if err := wait.PollUntilContextCancel(ctx, operatorsPoll, true, func(ctx context.Context) (bool, error) { return mayEverything(ctx, client) }); err != nil {
			return fmt.Errorf("waiting for the operators' rights: %w", err)
		}
	}
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: clusterv1alpha1.SystemNamespace, Name: operatorsRecord},
		Data:       map[string]string{"bound": "true"},
	}
	err = wait.PollUntilContextCancel(ctx, operatorsPoll, true, func(ctx context.Context) (bool, error) {
		_, err := records.Create(ctx, record, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) { // its namespace, which a new server is about to make
			return false, nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("recording that the operators have got their rights: %w", err)
	}
	return nil
}

// mayEverything returns whether the operators have all rights.
func mayEverything(ctx context.Context, client kubernetes.Interface) (bool, error) {
	review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: clusterv1alpha1.OperatorUser, Groups: []string{clusterv1alpha1.OperatorsGroup},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

package connections

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// secretReader returns one Secret, or an error.
type secretReader struct {
	client.Reader
	secret *corev1.Secret
	err    error
}

func (r secretReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch {
	case r.err != nil:
		return r.err
	case r.secret == nil || key != client.ObjectKeyFromObject(r.secret):
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	r.secret.DeepCopyInto(into.(*corev1.Secret))
	return nil
}

// TestCredentialsOfAMember: a token is presented only to the member that it was issued for.
func TestCredentialsOfAMember(t *testing.T) {
	type edit func(*clusterv1alpha1.Cluster, *corev1.Secret)
	tests := map[string]struct {
		reason string
		edit   edit
		err    error
		want   string // the reason of the error; empty: the credential is used
	}{
		"Good":     {"the Secret belongs to the Cluster as it is", func(*clusterv1alpha1.Cluster, *corev1.Secret) {}, nil, ""},
		"NoSecret": {"a Cluster without credentials", func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.SecretRef = nil }, nil, clusterv1alpha1.CredentialsNotUsableReason},
		"Absent": {"the Secret is not there", func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.SecretRef.Name = "other" },
			nil, clusterv1alpha1.CredentialsNotUsableReason},
		"Elsewhere": {"Secrets of other namespaces belong to users", func(c *clusterv1alpha1.Cluster, s *corev1.Secret) {
			c.Spec.SecretRef.Namespace, s.Namespace = "shop", "shop"
		}, nil, clusterv1alpha1.CredentialsNotUsableReason},
		"Foreign": {"another Cluster owns it", func(_ *clusterv1alpha1.Cluster, s *corev1.Secret) { s.OwnerReferences[0].UID = "other" },
			nil, clusterv1alpha1.CredentialsNotUsableReason},
		"Moved": {"the token would be sent to another address", func(c *clusterv1alpha1.Cluster, _ *corev1.Secret) { c.Spec.APIEndpoint = "https://192.0.2.1" },
			nil, clusterv1alpha1.ClusterAddressChangedReason},
		"NoToken": {"there is nothing to present", func(_ *clusterv1alpha1.Cluster, s *corev1.Secret) { delete(s.Data, clusterv1alpha1.SecretTokenKey) },
			nil, clusterv1alpha1.CredentialsNotUsableReason},
		"Unreadable": {"an API server that does not answer says nothing about the credential", func(*clusterv1alpha1.Cluster, *corev1.Secret) {},
			apierrors.NewTimeoutError("slow", 1), "error"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "u"}, Spec: clusterv1alpha1.ClusterSpec{
				APIEndpoint: "https://192.0.2.10", SecretRef: &clusterv1alpha1.LocalSecretReference{Namespace: clusterv1alpha1.ClusterNamespace, Name: "m"},
			}}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: clusterv1alpha1.ClusterNamespace, Name: "m",
				Annotations:     map[string]string{clusterv1alpha1.CredentialForAnnotation: clusterv1alpha1.CredentialDigest(clusterv1alpha1.ControllerCredential, &cluster.Spec, []byte("ca"))},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1alpha1.GroupVersion.String(), Kind: "Cluster", Name: "m", UID: "u"}},
			}, Data: map[string][]byte{
				clusterv1alpha1.SecretTokenKey: []byte("token"), clusterv1alpha1.SecretCADataKey: []byte("ca"), clusterv1alpha1.SecretRenewalTokenKey: []byte("renewal"),
			}}
			tc.edit(cluster, secret)
			got, err := Credentials(secretReader{secret: secret, err: tc.err})(t.Context(), cluster)
			if tc.want == "" {
				if err != nil || got.Token != "token" || got.Renewal != "renewal" || string(got.CABundle) != "ca" {
					t.Errorf("%s: got %+v, %v", tc.reason, got, err)
				}
				return
			}
			if got.Token != "" {
				t.Errorf("%s: the token is presented", tc.reason)
			}
			access, isAccess := errors.AsType[*clusterv1alpha1.AccessError](err)
			if tc.err != nil {
				if isAccess || !errors.Is(err, tc.err) {
					t.Errorf("%s: got %v", tc.reason, err)
				}
			} else if !isAccess || access.Reason != tc.want {
				t.Errorf("%s: got %v, want the reason %s", tc.reason, err, tc.want)
			}
		})
	}
}

package clusters

import (
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// ProxyOptions are the parameters of the proxy subresource.
type ProxyOptions struct {
	metav1.TypeMeta `json:",inline"`

	// Path is the part of the URL to request from the member.
	Path string `json:"path,omitempty"`
}

// DeepCopyObject makes it a runtime.Object.
func (o *ProxyOptions) DeepCopyObject() runtime.Object {
	copied := *o
	return &copied
}

// OpenAPIModelName is the name of the type in OpenAPI documents.
func (ProxyOptions) OpenAPIModelName() string {
	return "io.karmada.cluster.v1alpha1.ClusterProxyOptions"
}

// newScheme has the kinds as they are on the wire, and again as the internal version that upstream's
// handlers convert to: with one version there is nothing to convert.
func newScheme() (*runtime.Scheme, error) {
	scheme, err := NewWireScheme()
	if err != nil {
		return nil, err
	}
	internal := schema.GroupVersion{Group: clusterv1alpha1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &clusterv1alpha1.Cluster{}, &clusterv1alpha1.ClusterList{})
	scheme.AddKnownTypeWithName(internal.WithKind("ClusterProxyOptions"), &ProxyOptions{})
	return scheme, nil
}

// NewWireScheme has the kinds as they are on the wire.
func NewWireScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clusterv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypeWithName(clusterv1alpha1.GroupVersion.WithKind("ClusterProxyOptions"), &ProxyOptions{})
	err := scheme.AddConversionFunc((*url.Values)(nil), (*ProxyOptions)(nil), func(in, out any, _ conversion.Scope) error {
		out.(*ProxyOptions).Path = in.(*url.Values).Get("path")
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Kinds every group answers with, such as Status, are found under the bare version.
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme, nil
}

package simcluster

import (
	"context"
	"encoding/json"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedresourcev1 "k8s.io/client-go/kubernetes/typed/resource/v1"
	draclient "k8s.io/dynamic-resource-allocation/client"
)

// anyResourceAPI lets a scheduler of today work with an API server that serves claims and devices only in a beta version:
// the scheduler of that time spoke it.
type anyResourceAPI struct {
	kubernetes.Interface
	devices *draclient.Client
}

func withAnyResourceAPI(client kubernetes.Interface) kubernetes.Interface {
	return anyResourceAPI{client, draclient.New(client)}
}

// ResourceV1 is today's API, whichever the server serves.
func (c anyResourceAPI) ResourceV1() typedresourcev1.ResourceV1Interface {
	return anyVersion{c.devices, c.Interface}
}

type anyVersion struct {
	*draclient.Client
	kube kubernetes.Interface
}

// ResourceClaims adds what the library lacks.
func (c anyVersion) ResourceClaims(namespace string) typedresourcev1.ResourceClaimInterface {
	return anyClaims{c.Client.ResourceClaims(namespace), c.kube, namespace}
}

// anyClaims writes the status of claims itself. The library panics at it in v1beta2 and cannot patch.
type anyClaims struct {
	typedresourcev1.ResourceClaimInterface
	kube      kubernetes.Interface
	namespace string
}

// UpdateStatus tries v1 first and v1beta2, which has the same fields, second.
func (c anyClaims) UpdateStatus(ctx context.Context, claim *resourcev1.ResourceClaim, o metav1.UpdateOptions) (*resourcev1.ResourceClaim, error) {
	updated, err := c.kube.ResourceV1().ResourceClaims(c.namespace).UpdateStatus(ctx, claim, o)
	if !apierrors.IsNotFound(err) {
		return updated, err
	}
	beta := &resourcev1beta2.ResourceClaim{}
	if err := reshape(claim, beta); err != nil {
		return nil, err
	}
	if beta, err = c.kube.ResourceV1beta2().ResourceClaims(c.namespace).UpdateStatus(ctx, beta, o); err == nil {
		updated = &resourcev1.ResourceClaim{}
		return updated, reshape(beta, updated)
	}
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	return c.ResourceClaimInterface.UpdateStatus(ctx, claim, o) // v1beta1 has another shape, and works
}

// Patch tries one version after the other: the scheduler patches what is the same in all of them.
func (c anyClaims) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*resourcev1.ResourceClaim, error) {
	patched, err := c.kube.ResourceV1().ResourceClaims(c.namespace).Patch(ctx, name, kind, data, o, subresources...)
	if !apierrors.IsNotFound(err) {
		return patched, err
	}
	if _, err = c.kube.ResourceV1beta2().ResourceClaims(c.namespace).Patch(ctx, name, kind, data, o, subresources...); apierrors.IsNotFound(err) {
		_, err = c.kube.ResourceV1beta1().ResourceClaims(c.namespace).Patch(ctx, name, kind, data, o, subresources...)
	}
	if err != nil {
		return nil, err
	}
	return c.Get(ctx, name, metav1.GetOptions{})
}

func reshape(from, to any) error {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("converting a claim: %w", err)
	}
	return nil
}

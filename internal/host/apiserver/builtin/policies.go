package builtin

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"
)

// policies checks the types in expressions of ValidatingAdmissionPolicies and writes what is wrong to their status. Schemas are read
// from the served OpenAPI documents, and only when a policy changed.
func (b *builder) policies(context.Context) error {
	const name = "validatingadmissionpolicy-status-controller"
	_, client, err := b.client(name)
	if err != nil {
		return err
	}
	checker := &validating.TypeChecker{
		SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: client.Discovery()},
		RestMapper:     restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
	}
	controller, err := validatingadmissionpolicystatus.NewController(b.cfg.Informers.Admissionregistration().V1().ValidatingAdmissionPolicies(),
		client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), checker)
	if err != nil {
		return fmt.Errorf("making %s: %w", name, err)
	}
	b.add(name, func(ctx context.Context) { controller.Run(ctx, 1) })
	return nil
}

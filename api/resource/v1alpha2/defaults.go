package v1alpha2

import "k8s.io/apimachinery/pkg/runtime"

// RegisterDefaults makes decoding with the scheme fill in defaults, so that what is compared, validated and stored
// always has them.
func RegisterDefaults(scheme *runtime.Scheme) {
	scheme.AddTypeDefaultingFunc(&ResourceClaim{}, func(object any) {
		defaultSpec(&object.(*ResourceClaim).Spec)
	})
	scheme.AddTypeDefaultingFunc(&ResourceClaimList{}, func(object any) {
		list := object.(*ResourceClaimList)
		for i := range list.Items {
			defaultSpec(&list.Items[i].Spec)
		}
	})
	scheme.AddTypeDefaultingFunc(&ResourceClaimTemplate{}, func(object any) {
		defaultSpec(&object.(*ResourceClaimTemplate).Spec.Spec)
	})
	scheme.AddTypeDefaultingFunc(&ResourceClaimTemplateList{}, func(object any) {
		list := object.(*ResourceClaimTemplateList)
		for i := range list.Items {
			defaultSpec(&list.Items[i].Spec.Spec)
		}
	})
}

func defaultSpec(spec *ResourceClaimSpec) {
	if spec.AllocationMode == "" {
		spec.AllocationMode = AllocationModeWaitForFirstConsumer
	}
}

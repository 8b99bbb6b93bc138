package clusterset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxPorts bounds the ports of an export, as that of an EndpointSlice, and maxUnion those of a service.
	maxPorts, maxUnion = 100, 1000
	// maxCarriedBytes bounds the labels and annotations of an export together: every importing cluster gets them.
	maxCarriedBytes = 16 << 10
)

// Check returns why an export cannot be merged; nil if it can. An API server refuses an import that is not valid, so that one export
// would take the service from all clusters.
func Check(e Export) error {
	spec := field.NewPath("Service", "spec")
	if e.Service.Type == corev1.ServiceTypeExternalName {
		return errors.New("a Service of type ExternalName has no endpoints to export")
	}
	errs := slices.Concat(checkPorts(e.Service.Ports, spec.Child("ports")), checkAffinity(&e.Service, spec))
	if len(e.Service.Ports) == 0 && e.Service.ClusterIP != corev1.ClusterIPNone {
		errs = append(errs, field.Required(spec.Child("ports"), "a Service with an address has ports"))
	}
	if families := e.Service.IPFamilies; len(families) > 2 || len(families) == 2 && families[0] == families[1] {
		errs = append(errs, field.Invalid(spec.Child("ipFamilies"), field.OmitValueType{}, "there are two families"))
	}
	for i, family := range e.Service.IPFamilies {
		errs = append(errs, oneOf(spec.Child("ipFamilies").Index(i), family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
	}
	if p := e.Service.InternalTrafficPolicy; p != nil {
		errs = append(errs, oneOf(spec.Child("internalTrafficPolicy"), *p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)...)
	}
	if d := e.Service.TrafficDistribution; d != nil {
		errs = append(errs, oneOf(spec.Child("trafficDistribution"), *d,
			corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
	}
	size, export := 0, field.NewPath("ServiceExport", "spec")
	for _, pairs := range []map[string]string{e.Labels, e.Annotations} {
		for key, value := range pairs {
			size += len(key) + len(value)
		}
	}
	if size > maxCarriedBytes {
		return field.ErrorList{field.Invalid(export, field.OmitValueType{},
			fmt.Sprintf("exportedLabels and exportedAnnotations have %d bytes, and may have %d", size, maxCarriedBytes))}.ToAggregate()
	}
	errs = append(errs, metav1validation.ValidateLabels(e.Labels, export.Child("exportedLabels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(e.Annotations, export.Child("exportedAnnotations"))...)
	if len(errs) == 0 {
		return nil
	}
	return errors.New(Brief(errs.ToAggregate().Error()))
}

func checkPorts(ports []corev1.ServicePort, path *field.Path) field.ErrorList {
	if len(ports) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxPorts)}
	}
	var errs field.ErrorList
	for i, p := range ports {
		at := path.Index(i)
		for _, problem := range validation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, problem))
		}
		errs = append(errs, oneOf(at.Child("protocol"), cmp.Or(p.Protocol, corev1.ProtocolTCP), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
		if p.Name != "" || len(ports) > 1 {
			for _, problem := range validation.IsDNS1123Label(p.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), p.Name, problem))
			}
		}
		if p.AppProtocol != nil {
			for _, problem := range validation.IsQualifiedName(*p.AppProtocol) {
				errs = append(errs, field.Invalid(at.Child("appProtocol"), *p.AppProtocol, problem))
			}
		}
	}
	return errs
}

func checkAffinity(service *corev1.ServiceSpec, spec *field.Path) field.ErrorList {
	errs := oneOf(spec.Child("sessionAffinity"), cmp.Or(service.SessionAffinity, corev1.ServiceAffinityNone), corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP)
	config := service.SessionAffinityConfig
	if service.SessionAffinity != corev1.ServiceAffinityClientIP || config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return errs
	}
	const day = 86400
	if timeout := *config.ClientIP.TimeoutSeconds; timeout <= 0 || timeout > day {
		errs = append(errs, field.Invalid(spec.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds"), timeout, fmt.Sprintf("must be from 1 to %d", day)))
	}
	return errs
}

func oneOf[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// Brief bounds a text that ends up in conditions of other clusters. Members choose parts of it.
func Brief(text string) string {
	const longest = 1024
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

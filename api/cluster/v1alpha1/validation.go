package v1alpha1

import (
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns everything that is wrong with a normalized Cluster. That no
// other Cluster has the same id is for the server to check.
func Validate(cluster *Cluster) field.ErrorList {
	errs := validate(cluster)
	return append(errs, validateCredentials(&cluster.Spec, nil, field.NewPath("spec"))...)
}

// validate returns what is wrong with any Cluster, however old.
func validate(cluster *Cluster) field.ErrorList {
	errs := ValidateName(cluster.Name, field.NewPath("metadata", "name"))
	errs = append(errs, ValidateApplyAs(cluster.Annotations)...)
	errs = append(errs, ValidateExports(cluster.Annotations)...)
	return append(errs, validateSpec(&cluster.Spec, field.NewPath("spec"))...)
}

// ValidateUpdate returns everything that is wrong with a change of a Cluster.
func ValidateUpdate(updated, old *Cluster) field.ErrorList {
	errs := validate(updated)
	errs = append(errs, validateCredentials(&updated.Spec, &old.Spec, field.NewPath("spec"))...)
	if old.Spec.ID != "" && updated.Spec.ID != old.Spec.ID {
		errs = append(errs, field.Invalid(field.NewPath("spec", "id"), updated.Spec.ID, "cannot be changed once set"))
	}
	return errs
}

// ValidateName returns what is wrong with the name of a cluster: it must be a DNS
// label of at most MaxClusterNameLength characters.
func ValidateName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	if len(name) > MaxClusterNameLength {
		errs = append(errs, field.TooLong(path, name, MaxClusterNameLength))
	}
	return errs
}

// ValidateApplyAs returns what is wrong with the ApplyAsAnnotation among the annotations of an object, if it is there.
func ValidateApplyAs(annotations map[string]string) field.ErrorList {
	account, ok := annotations[ApplyAsAnnotation]
	if !ok {
		return nil
	}
	var errs field.ErrorList
	for _, message := range validation.IsDNS1123Subdomain(account) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(ApplyAsAnnotation), account,
			"must be the name of a ServiceAccount, without a namespace: "+message))
	}
	return errs
}

func validateSpec(spec *ClusterSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch spec.SyncMode {
	case Push, Pull:
	case "":
		errs = append(errs, field.Required(path.Child("syncMode"), "Push or Pull"))
	default:
		errs = append(errs, field.NotSupported(path.Child("syncMode"), spec.SyncMode, []ClusterSyncMode{Push, Pull}))
	}
	errs = append(errs, validateEndpoint(spec.APIEndpoint, path.Child("apiEndpoint"))...)
	errs = append(errs, validateProxyURL(spec.ProxyURL, path.Child("proxyURL"))...)
	errs = append(errs, validateSecretRef(spec.SecretRef, path.Child("secretRef"))...)
	errs = append(errs, validateSecretRef(spec.ImpersonatorSecretRef, path.Child("impersonatorSecretRef"))...)
	errs = append(errs, validateZones(spec.Zones, path.Child("zones"))...)
	errs = append(errs, validateTaints(spec.Taints, path.Child("taints"))...)
	return append(errs, validateModels(spec.ResourceModels, path.Child("resourceModels"))...)
}

// validateCredentials checks where credentials are read from and sent to. Values that an existing Cluster has already are
// accepted, so that it can still be changed and deleted; they are refused when they are used.
func validateCredentials(spec, old *ClusterSpec, path *field.Path) field.ErrorList {
	if old == nil {
		old = &ClusterSpec{}
	}
	var errs field.ErrorList
	if spec.APIEndpoint != old.APIEndpoint && strings.HasPrefix(strings.ToLower(spec.APIEndpoint), "http://") {
		errs = append(errs, field.Invalid(path.Child("apiEndpoint"), spec.APIEndpoint, "scheme must be https: credentials are not sent in plain text"))
	}
	for _, ref := range []struct {
		field    string
		now, old *LocalSecretReference
	}{
		{"secretRef", spec.SecretRef, old.SecretRef},
		{"impersonatorSecretRef", spec.ImpersonatorSecretRef, old.ImpersonatorSecretRef},
	} {
		if ref.now == nil || ref.now.Namespace == "" || ref.now.Namespace == ClusterNamespace || ref.old != nil && *ref.old == *ref.now {
			continue
		}
		errs = append(errs, field.Invalid(path.Child(ref.field, "namespace"), ref.now.Namespace, "must be "+ClusterNamespace))
	}
	return errs
}

// validateEndpoint accepts what clients accept as a host: a URL, or host and optional port.
func validateEndpoint(endpoint string, path *field.Path) field.ErrorList {
	if endpoint == "" {
		return nil
	}
	address := endpoint
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	parsed, err := url.Parse(address)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, endpoint, "must be a URL, or a host with an optional port")}
	case parsed.Scheme != "https" && parsed.Scheme != "http":
		return field.ErrorList{field.Invalid(path, endpoint, "scheme must be https or http")}
	case parsed.Hostname() == "":
		return field.ErrorList{field.Invalid(path, endpoint, "must name a host")}
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return field.ErrorList{field.Invalid(path, endpoint, "must not have a user, query or fragment")}
	}
	return nil
}

func validateProxyURL(proxy string, path *field.Path) field.ErrorList {
	if proxy == "" {
		return nil
	}
	// The value may hold a password, so errors do not repeat it.
	parsed, err := url.Parse(proxy)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "must be a URL")}
	}
	var errs field.ErrorList
	switch parsed.Scheme {
	case "http", "https", "socks5":
	default:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "scheme must be http, https or socks5"))
	}
	if parsed.Hostname() == "" {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "must name a host"))
	}
	return errs
}

func validateSecretRef(ref *LocalSecretReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	var errs field.ErrorList
	if ref.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), "the namespace of the Secret"))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "the name of the Secret"))
	}
	return errs
}

func validateZones(zones []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, zone := range zones {
		if zone == "" {
			errs = append(errs, field.Required(path.Index(i), "a zone has a name"))
		} else if seen.Has(zone) {
			errs = append(errs, field.Duplicate(path.Index(i), zone))
		}
		seen.Insert(zone)
	}
	return errs
}

func validateTaints(taints []corev1.Taint, path *field.Path) field.ErrorList {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	var errs field.ErrorList
	seen := sets.New[identity]()
	for i, taint := range taints {
		path := path.Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(taint.Key, path.Child("key"))...)
		for _, message := range validation.IsValidLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), taint.Value, message))
		}
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		case "":
			errs = append(errs, field.Required(path.Child("effect"), "NoSchedule, PreferNoSchedule or NoExecute"))
		default:
			errs = append(errs, field.NotSupported(path.Child("effect"), taint.Effect, []corev1.TaintEffect{
				corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
		}
		id := identity{taint.Key, taint.Effect}
		if seen.Has(id) {
			errs = append(errs, field.Duplicate(path, fmt.Sprintf("%s:%s", taint.Key, taint.Effect)))
		}
		seen.Insert(id)
	}
	return errs
}

// validateModels expects models ordered as Normalize orders them.
func validateModels(models []ResourceModel, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for grade, model := range models {
		path := path.Index(grade)
		if model.Grade != uint(grade) {
			errs = append(errs, field.Invalid(path.Child("grade"), model.Grade, "grades must count from 0 without a gap"))
		}
		if len(model.Ranges) == 0 {
			errs = append(errs, field.Required(path.Child("ranges"), "a grade has a range for at least one resource"))
		}
		if len(model.Ranges) != len(models[0].Ranges) {
			errs = append(errs, field.Invalid(path.Child("ranges"), len(model.Ranges), "every grade must have the same resources"))
			continue
		}
		errs = append(errs, validateRanges(model.Ranges, path.Child("ranges"))...)
		if grade > 0 && len(models[grade-1].Ranges) == len(model.Ranges) {
			errs = append(errs, validateJoin(models[grade-1].Ranges, model.Ranges, path.Child("ranges"))...)
		}
	}
	return errs
}

func validateRanges(ranges []ResourceModelRange, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[corev1.ResourceName]()
	for i, r := range ranges {
		path := path.Index(i)
		if r.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), "the name of a resource"))
		}
		if seen.Has(r.Name) {
			errs = append(errs, field.Duplicate(path.Child("name"), r.Name))
		}
		seen.Insert(r.Name)
		if r.Min.Sign() < 0 {
			errs = append(errs, field.Invalid(path.Child("min"), r.Min.String(), "must not be negative"))
		}
		if r.Max.Cmp(r.Min) <= 0 {
			errs = append(errs, field.Invalid(path.Child("max"), r.Max.String(), "must be greater than min"))
		}
	}
	return errs
}

// validateJoin checks that the ranges of one grade begin where those of the grade below end.
func validateJoin(below, ranges []ResourceModelRange, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, r := range ranges {
		if r.Name != below[i].Name {
			errs = append(errs, field.Invalid(path.Index(i).Child("name"), r.Name, "every grade must have the same resources"))
			continue
		}
		if r.Min.Cmp(below[i].Max) != 0 {
			errs = append(errs, field.Invalid(path.Index(i).Child("min"), r.Min.String(), "must equal max of the grade below"))
		}
	}
	return errs
}

package skew_test

import (
	"os"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// versionVar names the environment variable with the version of Kubernetes in the member, a key of versions.
	versionVar = "FLAGSHIP_SKEW_VERSION"
	// programsVar names the one with the folder of kube-apiserver and kube-controller-manager of that version.
	programsVar = "FLAGSHIP_SKEW_PROGRAMS"
	// longestToken is the longest life of a token that the member gives, however long a life is asked for.
	longestToken = 2 * time.Hour
)

// version is what a version of Kubernetes lacks.
type version struct {
	// flags and controllerFlags are further ones of its API server and its controllers.
	flags, controllerFlags []string
	// claims is the version of resource claims that it serves.
	claims string
	// unserved is an object of a built-in kind that the control plane serves and the version does not.
	unserved client.Object
	// unservedAs is the version and the kind of it.
	unservedAs string
	// unknown is an object with a field that the version does not serve, unknownField.
	unknown      client.Object
	unknownField string
}

var versions = map[string]version{
	"1.30": {
		flags:           []string{"--feature-gates=DynamicResourceAllocation=true", "--runtime-config=resource.k8s.io/v1alpha2=true"},
		controllerFlags: []string{"--feature-gates=DynamicResourceAllocation=true"},
		claims:          "v1alpha2",
		unserved: &storagev1.VolumeAttributesClass{
			TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttributesClass"},
			ObjectMeta: metav1.ObjectMeta{Name: "skew-silver"}, DriverName: "csi.example.com", Parameters: map[string]string{"iops": "100"},
		},
		unservedAs: "storage.k8s.io/v1 VolumeAttributesClass",
		unknown: &corev1.PodTemplate{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}, ObjectMeta: metav1.ObjectMeta{Name: "named"},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostnameOverride: new("override"), Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}}},
		},
		unknownField: ".template.spec.hostnameOverride",
	},
	"1.34": {
		claims: "v1",
		unserved: &admissionv1.MutatingAdmissionPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingAdmissionPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: "skew.example.com"},
			Spec: admissionv1.MutatingAdmissionPolicySpec{
				ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{"skew.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nothing"}},
				}}}},
				Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
					Expression: `[JSONPatch{op: "remove", path: "/metadata/annotations"}]`,
				}}},
			},
		},
		unservedAs: "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy",
		unknown: &storagev1.CSIDriver{
			TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver"}, ObjectMeta: metav1.ObjectMeta{Name: "skew.example.com"},
			Spec: storagev1.CSIDriverSpec{ServiceAccountTokenInSecrets: new(true), TokenRequests: []storagev1.TokenRequest{{Audience: "skew"}}},
		},
		unknownField: ".spec.serviceAccountTokenInSecrets",
	},
	// No field of 1.37 that is on by default is unknown to 1.36.
	"1.36": {
		claims: "v1",
		unserved: &resourcev1.DeviceTaintRule{
			TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "DeviceTaintRule"},
			ObjectMeta: metav1.ObjectMeta{Name: "skew"},
			Spec: resourcev1.DeviceTaintRuleSpec{
				DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com")},
				Taint:          resourcev1.DeviceTaint{Key: "gpu.example.com/skew", Effect: resourcev1.DeviceTaintEffectNoSchedule},
			},
		},
		unservedAs: "resource.k8s.io/v1 DeviceTaintRule",
	},
}

// wanted returns the version that is to be tested, and the folder of its programs; nothing if none is.
func wanted() (name, programs string) { return os.Getenv(versionVar), os.Getenv(programsVar) }

func claimsIn(v string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "resource.k8s.io", Version: v, Kind: "ResourceClaim"}
}

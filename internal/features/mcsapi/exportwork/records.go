package exportwork

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
)

// Verdict is the result for an export, which the control plane writes on the record of the export.
type Verdict struct {
	// Reasons and Message of the conflicts with other exports; none if there is no conflict.
	Reasons []multiclusterv1beta1.ConflictReason `json:"reasons,omitempty"`
	Message string                               `json:"message,omitempty"`
	// Obstacles say in which clusters the import could not be made, and why.
	Obstacles string `json:"obstacles,omitempty"`
	// Refused is why the export is not imported anywhere; empty if it is.
	Refused string `json:"refused,omitempty"`
}

// ReadVerdict reads the verdict from a record, which may be nil. Given is false if the record has none.
func ReadVerdict(record *workv1alpha1.Work) (v Verdict, given bool) {
	if record == nil {
		return v, false
	}
	text, given := record.Annotations[multiclusterv1beta1.VerdictAnnotation]
	return v, given && json.Unmarshal([]byte(text), &v) == nil
}

// ReservedMessage says why a reserved Service is not exported.
func ReservedMessage(service types.NamespacedName) string {
	return fmt.Sprintf("Service %s belongs to its cluster: it is neither exported nor imported", service)
}

// ExportedSpec returns the part of a Service's spec that other clusters may have.
func ExportedSpec(spec *corev1.ServiceSpec) corev1.ServiceSpec {
	kept := corev1.ServiceSpec{
		Type: spec.Type, SessionAffinity: spec.SessionAffinity, SessionAffinityConfig: spec.SessionAffinityConfig,
		IPFamilies: spec.IPFamilies, InternalTrafficPolicy: spec.InternalTrafficPolicy, TrafficDistribution: spec.TrafficDistribution,
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		kept.ClusterIP = corev1.ClusterIPNone
	}
	for _, p := range spec.Ports {
		kept.Ports = append(kept.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	return kept
}

// ExportKey is the key of the record of an export.
func ExportKey(cluster string, export types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(cluster, multiclusterv1beta1.ExportRecordName(export.Namespace, export.Name))
}

// ExportRecord is the record of an export and its Service, beside the other Works of the cluster.
func ExportRecord(cluster string, export *multiclusterv1beta1.ServiceExport, service corev1.ServiceSpec, existing *workv1alpha1.Work) (*workv1alpha1.Work, error) {
	key := client.ObjectKeyFromObject(export)
	slim := &multiclusterv1beta1.ServiceExport{
		TypeMeta: metav1.TypeMeta{APIVersion: multiclusterv1beta1.GroupVersion.String(), Kind: multiclusterv1beta1.KindServiceExport},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: export.UID, CreationTimestamp: export.CreationTimestamp,
		},
		Spec: export.Spec,
	}
	behind := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       service,
	}
	work := workv1alpha1.NewRecord(ExportKey(cluster, key), existing)
	work.AddLabels(Labels(key, multiclusterv1beta1.RoleExport))
	work.Spec.SuspendDispatching = new(true)
	manifests := make([]workv1alpha1.Manifest, 0, 2)
	for _, object := range []any{slim, behind} {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encoding the export of %s: %w", key, err)
		}
		manifests = append(manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	if !workv1alpha1.SameManifests(work.Spec.Workload.Manifests, manifests) {
		work.Spec.Workload.Manifests = manifests
	}
	return work, nil
}

// ReadExport reads a record. An export that cannot be merged with those of other clusters is an error.
func ReadExport(record *workv1alpha1.Work) (clusterset.Export, error) {
	cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
	export, service := &multiclusterv1beta1.ServiceExport{}, &corev1.Service{}
	if n := len(record.Spec.Workload.Manifests); n != 2 {
		return clusterset.Export{}, fmt.Errorf("reading the export record %s/%s: it has %d manifests, not 2", record.Namespace, record.Name, n)
	}
	for i, object := range []any{export, service} {
		if err := json.Unmarshal(record.Spec.Workload.Manifests[i].Raw, object); err != nil {
			return clusterset.Export{}, fmt.Errorf("reading the export record %s/%s: %w", record.Namespace, record.Name, err)
		}
	}
	read := clusterset.Export{
		Cluster: cluster, Recorded: record.CreationTimestamp.Time,
		Labels: export.Spec.ExportedLabels, Annotations: export.Spec.ExportedAnnotations, Service: ExportedSpec(&service.Spec),
	}
	return read, clusterset.Check(read)
}

// Exported returns what the record of a slice has of it: what other clusters may have, and the nodes, which mean something in the
// exporting cluster itself, which imports the slice too.
func Exported(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	out := endpointslices.Collected(slice)
	if out == nil {
		return nil
	}
	for i := range out.Endpoints {
		out.Endpoints[i].NodeName = slice.Endpoints[i].NodeName
	}
	return out
}

// EndpointsKey is the key of the record of a slice of an exported Service.
func EndpointsKey(cluster string, slice types.NamespacedName) types.NamespacedName {
	return endpointslices.WorkKey(cluster, multiclusterv1beta1.EndpointsRecordName(slice.Namespace, slice.Name))
}

// EndpointsRecord is the record of a slice of an exported Service.
func EndpointsRecord(cluster string, export, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := workv1alpha1.NewRecord(EndpointsKey(cluster, slice), existing)
	endpointslices.SetSlice(work, multiclusterv1beta1.KindServiceExport, Labels(export, multiclusterv1beta1.RoleEndpoints), slice)
	endpointslices.SetManifest(work, raw, true)
	return work
}

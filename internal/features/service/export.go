package service

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/features/service/clusterset"
)

// verdict is what the control plane makes of an export, as it is noted on the export's record.
type exportVerdict struct {
	// Reasons and Message of the conflicts with other exports; none if there is no conflict.
	Reasons []multiclusterv1beta1.ConflictReason `json:"reasons,omitempty"`
	Message string                               `json:"message,omitempty"`
	// Obstacles say in which clusters the import could not be made, and why.
	Obstacles string `json:"obstacles,omitempty"`
}

func readVerdict(record *workv1alpha1.Work) (v exportVerdict, given bool) {
	if record == nil {
		return v, false
	}
	text, given := record.Annotations[multiclusterv1beta1.VerdictAnnotation]
	return v, given && json.Unmarshal([]byte(text), &v) == nil
}

// exportedSpec is what of a Service's spec matters to others.
func exportedSpec(spec *corev1.ServiceSpec) corev1.ServiceSpec {
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

// validity says whether a Service can be exported.
func validity(export *multiclusterv1beta1.ServiceExport, service *corev1.ServiceSpec) metav1.Condition {
	switch {
	case service == nil:
		return multiclusterv1beta1.NoService(export.Generation, fmt.Sprintf("There is no Service %s in this cluster: create it", export.Name))
	case service.Type == corev1.ServiceTypeExternalName:
		return multiclusterv1beta1.InvalidServiceType(export.Generation, "A Service of type ExternalName has no endpoints to export")
	}
	return multiclusterv1beta1.Valid(export.Generation)
}

// exportConditions are the conditions of an export, others' included. Only an export that is valid can be in conflict.
func exportConditions(export *multiclusterv1beta1.ServiceExport, valid metav1.Condition, record *workv1alpha1.Work, now time.Time) []metav1.Condition {
	conditions := export.DeepCopy().Status.Conditions
	set := func(c metav1.Condition) {
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		meta.SetStatusCondition(&conditions, c)
	}
	set(valid)
	verdict, given := readVerdict(record)
	switch {
	case valid.Status != metav1.ConditionTrue:
		set(multiclusterv1beta1.ExportFailed(export.Generation, "The export is not valid"))
		meta.RemoveStatusCondition(&conditions, multiclusterv1beta1.ExportConflict)
		return conditions
	case !given:
		set(multiclusterv1beta1.ExportPending(export.Generation, "The control plane has not looked at the export yet"))
		return conditions
	case verdict.Obstacles != "":
		set(multiclusterv1beta1.Exported(export.Generation, "The service is exported, but not everywhere: "+verdict.Obstacles))
	default:
		set(multiclusterv1beta1.Exported(export.Generation, "The service is exported to all clusters that have the namespace"))
	}
	if len(verdict.Reasons) > 0 {
		set(multiclusterv1beta1.Conflicting(export.Generation, verdict.Reasons, verdict.Message))
	} else {
		set(multiclusterv1beta1.NoConflicts(export.Generation))
	}
	return conditions
}

// exportRecord is the record of an export and its Service, beside the other Works of the cluster.
func exportRecord(cluster string, export *multiclusterv1beta1.ServiceExport, service corev1.ServiceSpec, existing *workv1alpha1.Work) (*workv1alpha1.Work, error) {
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
	work := begin(existing, workv1alpha1.ExecutionNamespace(cluster), multiclusterv1beta1.ExportRecordName(key.Namespace, key.Name))
	work.Labels = labels.Merge(work.Labels, exportLabels(key, multiclusterv1beta1.RoleExport))
	work.Spec.SuspendDispatching = new(true)
	var manifests []workv1alpha1.Manifest
	for _, object := range []any{slim, behind} {
		raw, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encoding the export of %s: %w", key, err)
		}
		manifests = append(manifests, workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	for i, m := range work.Spec.Workload.Manifests {
		if i < len(manifests) && workv1alpha1.SameRaw(&m.RawExtension, &manifests[i].RawExtension) {
			manifests[i] = m
		}
	}
	work.Spec.Workload.Manifests = manifests
	return work, nil
}

// readExport reads a record.
func readExport(record *workv1alpha1.Work) (clusterset.Export, error) {
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
	return clusterset.Export{
		Cluster: cluster, Created: export.CreationTimestamp.Time,
		Labels: export.Spec.ExportedLabels, Annotations: export.Spec.ExportedAnnotations, Service: service.Spec,
	}, nil
}

// exportLabels say whose export a Work is about, and what it is for.
func exportLabels(key types.NamespacedName, role string) map[string]string {
	return map[string]string{
		multiclusterv1beta1.ExportNamespaceLabel: key.Namespace, multiclusterv1beta1.ExportNameLabel: key.Name,
		multiclusterv1beta1.ExportRoleLabel: role,
	}
}

func roleOf(work metav1.Object) string { return work.GetLabels()[multiclusterv1beta1.ExportRoleLabel] }

// exportOf is the exported service that a Work is about; empty for other Works.
func exportOf(work metav1.Object) types.NamespacedName {
	return types.NamespacedName{
		Namespace: work.GetLabels()[multiclusterv1beta1.ExportNamespaceLabel], Name: work.GetLabels()[multiclusterv1beta1.ExportNameLabel],
	}
}

// exported is what the record of a slice has of it: what any other cluster may know, and the nodes, which mean something
// in the cluster itself, where the slice comes back to.
func exported(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	out := collected(slice)
	if out == nil {
		return nil
	}
	for i := range out.Endpoints {
		out.Endpoints[i].NodeName = slice.Endpoints[i].NodeName
	}
	return out
}

// endpointsRecord is the record of a slice of an exported Service.
func endpointsRecord(cluster string, export, slice types.NamespacedName, raw []byte, existing *workv1alpha1.Work) *workv1alpha1.Work {
	work := begin(existing, workv1alpha1.ExecutionNamespace(cluster), multiclusterv1beta1.EndpointsRecordName(slice.Namespace, slice.Name))
	label(work, exportLabels(export, multiclusterv1beta1.RoleEndpoints), slice)
	work.Labels[networkingv1alpha1.EndpointSliceWorkManagedByLabel] = multiclusterv1beta1.KindServiceExport
	carry(work, raw, true)
	return work
}

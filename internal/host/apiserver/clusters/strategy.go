package clusters

import (
	"context"
	"net/url"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/clients/dial"
)

// specStrategy governs writes to clusters: everything but status.
type specStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	rules dial.Rules
}

var (
	_ rest.CreateUpdateResetFieldsStrategy = specStrategy{}
	_ rest.UpdateResetFieldsStrategy       = statusStrategy{}
)

// NamespaceScoped is false: a cluster belongs to the whole control plane.
func (specStrategy) NamespaceScoped() bool { return false }

// AllowCreateOnUpdate is false: a PUT to a name that is not there is a mistake.
func (specStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate is true, as for built-in kinds: a PUT without resourceVersion overwrites.
func (specStrategy) AllowUnconditionalUpdate(context.Context) bool { return true }

// GetResetFields returns the fields that a write to the main resource does not change.
func (specStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resets("status")
}

// PrepareForCreate fills in what every cluster has.
func (specStrategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	cluster := object.(*clusterv1alpha1.Cluster)
	cluster.Status = clusterv1alpha1.ClusterStatus{}
	cluster.Generation = 1
	clusterv1alpha1.SetDefaults(cluster)
	clusterv1alpha1.StampTaints(cluster.Spec.Taints, nil, metav1.Now())
}

// PrepareForUpdate keeps status and counts changes of the spec.
func (specStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	cluster, before := object.(*clusterv1alpha1.Cluster), old.(*clusterv1alpha1.Cluster)
	cluster.Status = before.Status
	clusterv1alpha1.Normalize(cluster)
	clusterv1alpha1.StampTaints(cluster.Spec.Taints, before.Spec.Taints, metav1.Now())
	cluster.Generation = before.Generation
	if !apiequality.Semantic.DeepEqual(cluster.Spec, before.Spec) {
		cluster.Generation++
	}
}

// Canonicalize has nothing to do that the write has not done.
func (specStrategy) Canonicalize(runtime.Object) {}

// Validate checks a new cluster.
func (s specStrategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	cluster := object.(*clusterv1alpha1.Cluster)
	return append(clusterv1alpha1.Validate(cluster), s.validateAddresses(cluster, &clusterv1alpha1.Cluster{})...)
}

// ValidateUpdate checks a changed cluster.
func (s specStrategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	cluster, before := object.(*clusterv1alpha1.Cluster), old.(*clusterv1alpha1.Cluster)
	return append(clusterv1alpha1.ValidateUpdate(cluster, before), s.validateAddresses(cluster, before)...)
}

// validateAddresses refuses addresses that the control plane does not connect to, unless the Cluster had them before: then it
// can still be changed and deleted. Names are checked when they are resolved.
func (s specStrategy) validateAddresses(cluster, old *clusterv1alpha1.Cluster) field.ErrorList {
	var errs field.ErrorList
	for _, address := range []struct{ field, now, old string }{
		{"apiEndpoint", cluster.Spec.APIEndpoint, old.Spec.APIEndpoint},
		{"proxyURL", cluster.Spec.ProxyURL, old.Spec.ProxyURL},
	} {
		if address.now == "" || address.now == address.old {
			continue
		}
		text := address.now
		if !strings.Contains(text, "://") {
			text = "https://" + text
		}
		location, err := url.Parse(text)
		if err != nil {
			continue // Validation reports it.
		}
		if err := s.rules.CheckHost(location.Hostname()); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", address.field), err.Error()))
		}
	}
	return errs
}

// WarningsOnCreate warns of what is legal and unwise.
func (specStrategy) WarningsOnCreate(_ context.Context, object runtime.Object) []string {
	cluster := object.(*clusterv1alpha1.Cluster)
	var warnings []string
	if cluster.Spec.InsecureSkipTLSVerification {
		warnings = append(warnings, "spec.insecureSkipTLSVerification: credentials are sent to whoever answers at spec.apiEndpoint")
	}
	return warnings
}

// WarningsOnUpdate returns none: the warnings came when the cluster was created.
func (specStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// statusStrategy governs writes to clusters/status.
type statusStrategy struct{ specStrategy }

// GetResetFields returns the fields that a write to status does not change.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return resets("spec", "metadata")
}

// PrepareForUpdate keeps everything but status.
func (statusStrategy) PrepareForUpdate(ctx context.Context, object, old runtime.Object) {
	cluster, before := object.(*clusterv1alpha1.Cluster), old.(*clusterv1alpha1.Cluster)
	cluster.Spec = before.Spec
	metav1.ResetObjectMetaForStatus(&cluster.ObjectMeta, &before.ObjectMeta)
	if writer, ok := request.UserFrom(ctx); ok {
		if _, _, isAgent := clusterv1alpha1.ClusterOfAgent(writer.GetName(), writer.GetGroups()); isAgent {
			stampConditions(cluster.Status.Conditions, before.Status.Conditions, metav1.Now())
		}
	}
}

// stampConditions notes when conditions changed, by the clock of the control plane: tolerations and graces count from there, and the
// clock of an agent may be another one.
func stampConditions(conditions, before []metav1.Condition, now metav1.Time) {
	for i := range conditions {
		condition := &conditions[i]
		condition.LastTransitionTime = now
		if old := meta.FindStatusCondition(before, condition.Type); old != nil && old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
}

// ValidateUpdate trusts the writer of status with its content.
func (statusStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

func resets(names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{
		fieldpath.APIVersion(clusterv1alpha1.GroupVersion.String()): set,
	}
}

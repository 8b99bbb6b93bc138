package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	networkingv1alpha1 "github.com/flagship-k8s/flagship/api/networking/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubclient"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

var (
	importKind    = multiclusterv1beta1.GroupVersion.WithKind(multiclusterv1beta1.KindServiceImport)
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	serviceKind   = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
)

func importRef(key types.NamespacedName) hubstore.Ref {
	return hubstore.Ref{GroupVersionKind: importKind, Namespace: key.Namespace, Name: key.Name}
}

// Templates is the part of *hubstore.Store that this package uses.
type Templates interface {
	Subscribe(func(hubstore.Ref))
	WaitForSync(context.Context) error
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
}

// importer reconciles the imports of one service: it makes them from the recorded exports.
type importer struct {
	client    client.Client
	templates Templates
	clusters  endpointslices.Clusters
	events    events.Recorder
	// has is that of namespaces. It is a function for tests, which have no members.
	has func(cluster, namespace string) (present, known bool)
}

// set is everything about one exported service.
type set struct {
	key     types.NamespacedName
	records []*workv1alpha1.Work
	// refused has the reasons why exports are not merged, by the cluster.
	refused map[string]string
	// works carry the imports and derived Services.
	works []*workv1alpha1.Work
	// service is what the exports add up to; nil if there are none.
	service *clusterset.Service
	// custom is an import that a user made on the control plane, and targets the clusters to which a policy propagates it.
	custom     *multiclusterv1beta1.ServiceImport
	targets    []string
	registered []*clusterv1alpha1.Cluster
}

// spec of the import in a cluster; nil if there is to be no import. What a user made and a policy propagates to the cluster wins over
// what the exports add up to.
func (s *set) spec(cluster string) *multiclusterv1beta1.ServiceImportSpec {
	switch {
	case s.custom != nil && slices.Contains(s.targets, cluster):
		return &s.custom.Spec
	case s.service != nil:
		return &s.service.Spec
	}
	return nil
}

// specOnHub is the spec of the import on the control plane; nil if there is none.
func (s *set) specOnHub() *multiclusterv1beta1.ServiceImportSpec {
	switch {
	case s.custom != nil:
		return &s.custom.Spec
	case s.service != nil:
		return &s.service.Spec
	}
	return nil
}

// exporting lists the clusters that export the service.
func (s *set) exporting() []string {
	if s.service == nil {
		return nil
	}
	return s.service.Clusters
}

// services lists the exported services of a group's namespace.
func (i *importer) services(ctx context.Context, group types.NamespacedName) ([]types.NamespacedName, error) {
	return exportwork.ListServices(ctx, i.client, group.Namespace)
}

// Reconcile brings the imports of the service that the request names up to date.
func (i *importer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s, err := i.read(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = errors.Join(i.writeWorks(ctx, s), i.writeVerdict(ctx, s), i.writeOnHub(ctx, s), i.writeDerivedOnHub(ctx, s))
	if meta, there := i.templates.Meta(importRef(s.key)); there && s.specOnHub() != nil && !apierrors.IsConflict(err) {
		i.events.Publish(i.derivedEvent(events.Reference(importKind, meta), s.key, err))
	}
	if err == nil && len(s.refused) > 0 {
		return reconcile.Result{RequeueAfter: recheck}, nil // Others of the cluster may have gone.
	}
	return reconcile.Result{}, err
}

// derivedEvent is whether the Service of an import could be derived. Err is what failed on the control plane.
func (i *importer) derivedEvent(about corev1.ObjectReference, key types.NamespacedName, err error) events.Event {
	name := networkingv1alpha1.DerivedServiceName(key.Name)
	theirs, exists := i.templates.Meta(hubstore.Ref{GroupVersionKind: serviceKind, Namespace: key.Namespace, Name: name})
	switch {
	case err != nil:
		return events.Warning(about, events.SyncDerivedServiceFailed, err.Error())
	case len(name) > validation.DNS1035LabelMaxLength:
		return events.Warning(about, events.SyncDerivedServiceFailed, fmt.Sprintf("the name %s is too long for a Service", name))
	case exists && !isOnHub(theirs.Labels):
		return events.Warning(about, events.SyncDerivedServiceFailed, fmt.Sprintf("a Service %s exists that is not derived from the import", name))
	default:
		return events.Success(about, events.SyncDerivedServiceSucceed, fmt.Sprintf("Service %s is derived from the import", name))
	}
}

// read reads everything about a service.
func (i *importer) read(ctx context.Context, key types.NamespacedName) (*set, error) {
	s := &set{key: key, refused: map[string]string{}}
	var err error
	if s.registered, err = i.clusters.Registered(ctx); err != nil {
		return nil, err
	}
	works, err := exportwork.ListOf(ctx, i.client, key)
	if err != nil {
		return nil, err
	}
	var exports []clusterset.Export
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		switch exportwork.RoleOf(w) {
		case multiclusterv1beta1.RoleExport:
			at := slices.IndexFunc(s.registered, func(c *clusterv1alpha1.Cluster) bool { return c.Name == cluster })
			if w.DeletionTimestamp != nil || at < 0 || client.ObjectKeyFromObject(w) != exportwork.ExportKey(cluster, key) {
				continue
			}
			s.records = append(s.records, w)
			refusal, err := i.refusal(ctx, w, s.registered[at])
			if err != nil {
				return nil, err
			}
			if refusal != "" {
				s.refused[cluster] = refusal
				continue
			}
			export, err := exportwork.ReadExport(w)
			if err != nil { // It concerns this cluster alone.
				s.refused[cluster] = err.Error()
				continue
			}
			exports = append(exports, export)
		case multiclusterv1beta1.RoleImport, multiclusterv1beta1.RoleDerived:
			if !workv1alpha2.IsBound(w) {
				s.works = append(s.works, w)
			}
		}
	}
	if len(exports) > 0 {
		service := clusterset.Merge(exports)
		s.service = &service
	}
	return s, i.readCustom(ctx, s)
}

// readCustom reads an import that a user made on the control plane, and where it is propagated to.
func (i *importer) readCustom(ctx context.Context, s *set) error {
	meta, there := i.templates.Meta(importRef(s.key))
	if !there || madeFromExports(meta.Labels) || meta.DeletionTimestamp != nil {
		return nil
	}
	var err error
	if s.custom, err = i.onHub(ctx, s.key); err != nil || s.custom == nil {
		return err
	}
	binding := &workv1alpha2.ResourceBinding{}
	key := types.NamespacedName{Namespace: s.key.Namespace, Name: workv1alpha2.BindingName(multiclusterv1beta1.KindServiceImport, s.key.Name)}
	switch err := i.client.Get(ctx, key, binding, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading binding %s: %w", key, err)
	case binding.DeletionTimestamp == nil:
		for _, target := range binding.Spec.Clusters {
			s.targets = append(s.targets, target.Name)
		}
	}
	return nil
}

func madeFromExports(labels map[string]string) bool {
	return labels[multiclusterv1beta1.MadeFromExportsLabel] == "true"
}

// onHub reads the import on the control plane; nil if there is none or it is being deleted.
func (i *importer) onHub(ctx context.Context, key types.NamespacedName) (*multiclusterv1beta1.ServiceImport, error) {
	obj, err := i.templates.Get(ctx, importRef(key))
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if obj.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	object := &multiclusterv1beta1.ServiceImport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, object); err != nil {
		return nil, fmt.Errorf("reading ServiceImport %s: %w", key, err)
	}
	return object, nil
}

// imports returns whether a service is imported in a cluster: where its namespace is. While that is not known, what is there already
// stays. A cluster in pull mode, to which there is no connection, has the namespaces of the control plane and, of others, that of its export.
func (i *importer) imports(s *set, cluster *clusterv1alpha1.Cluster, already bool) bool {
	switch {
	case s.spec(cluster.Name) == nil:
		return false
	case slices.Contains(s.targets, cluster.Name):
		return true
	case cluster.Spec.SyncMode == clusterv1alpha1.Pull:
		return i.namespaceOnHub(s.key.Namespace) || slices.Contains(s.exporting(), cluster.Name)
	}
	present, known := i.has(cluster.Name, s.key.Namespace)
	return present || !known && already
}

func (i *importer) namespaceOnHub(name string) bool {
	meta, there := i.templates.Meta(hubstore.Ref{GroupVersionKind: namespaceKind, Name: name})
	return there && meta.DeletionTimestamp == nil || name == corev1.NamespaceDefault
}

// writeWorks writes the Works of every cluster that imports the service and deletes those of others. A failure of one does not hold up
// the others.
func (i *importer) writeWorks(ctx context.Context, s *set) error {
	surplus := map[types.NamespacedName]*workv1alpha1.Work{}
	has := map[string]bool{}
	for _, w := range s.works {
		surplus[client.ObjectKeyFromObject(w)] = w
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		has[cluster] = true
	}
	var failures []error
	for _, cluster := range s.registered {
		if i.imports(s, cluster, has[cluster.Name]) {
			failures = append(failures, i.writeDerived(ctx, s, cluster.Name, surplus), i.writeImport(ctx, s, cluster.Name, surplus))
		}
	}
	return errors.Join(append(failures, hubclient.DeleteWorks(ctx, i.client, slices.Collect(maps.Values(surplus))...))...)
}

// writeDerived writes the Work of the derived Service of one cluster, and removes it from the surplus.
func (i *importer) writeDerived(ctx context.Context, s *set, cluster string, surplus map[types.NamespacedName]*workv1alpha1.Work) error {
	if !hasDerived(s.spec(cluster)) {
		return nil
	}
	existing, err := hubclient.GetWork(ctx, i.client, exportwork.DerivedKey(cluster, s.key))
	if err != nil {
		return err
	}
	desired, err := derivedWork(cluster, s.key, *s.spec(cluster), s.exporting(), existing)
	if err != nil {
		return err
	}
	if existing != nil && headless(existing) != headless(desired) {
		return nil // It has to be deleted first: a Service's address is immutable.
	}
	delete(surplus, client.ObjectKeyFromObject(desired))
	return i.write(ctx, existing, desired)
}

// writeImport does the same for the ServiceImport, unless it is that of a user, which a binding propagates.
func (i *importer) writeImport(ctx context.Context, s *set, cluster string, surplus map[types.NamespacedName]*workv1alpha1.Work) error {
	if s.service == nil || s.custom != nil && slices.Contains(s.targets, cluster) {
		return nil
	}
	existing, err := hubclient.GetWork(ctx, i.client, exportwork.ImportKey(cluster, s.key))
	if err != nil {
		return err
	}
	desired, err := importWork(cluster, importObject(s.key, *s.service), existing)
	if err != nil {
		return err
	}
	delete(surplus, client.ObjectKeyFromObject(desired))
	return i.write(ctx, existing, desired)
}

// write leaves the Works of bindings alone.
func (i *importer) write(ctx context.Context, existing, desired *workv1alpha1.Work) error {
	if existing != nil && workv1alpha2.IsBound(existing) {
		return nil
	}
	return endpointslices.Write(ctx, i.client, existing, desired)
}

// writeVerdict writes the result on every record.
func (i *importer) writeVerdict(ctx context.Context, s *set) error {
	common := exportwork.Verdict{}
	if s.service != nil {
		common = exportwork.Verdict{Reasons: s.service.Reasons(), Message: s.service.Messages(), Obstacles: clusterset.Brief(obstacles(s.works))}
	}
	var failures []error
	for _, record := range s.records {
		result := common
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(record.Namespace)
		if reason := s.refused[cluster]; reason != "" {
			result = exportwork.Verdict{Refused: clusterset.Brief(reason)}
		}
		verdict, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("encoding the verdict on the exports of %s: %w", s.key, err)
		}
		desired := record.DeepCopy()
		desired.AddAnnotations(map[string]string{multiclusterv1beta1.VerdictAnnotation: string(verdict)})
		failures = append(failures, endpointslices.Write(ctx, i.client, record, desired))
	}
	return errors.Join(failures...)
}

// obstacles lists the clusters in which something could not be applied, and why.
func obstacles(works []*workv1alpha1.Work) string {
	found := map[string]string{}
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		if refusal := exportwork.Refusal(w); refusal != nil && w.DeletionTimestamp == nil {
			found[cluster] = fmt.Sprintf("cluster %s: %s", cluster, refusal.Message)
		}
	}
	return strings.Join(slices.Sorted(maps.Values(found)), "; ")
}

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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	multiclusterv1beta1 "github.com/flagship-k8s/flagship/api/multicluster/v1beta1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/clients/endpointslices"
	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/clusterset"
	"github.com/flagship-k8s/flagship/internal/features/mcsapi/exportwork"
)

var (
	importKind    = multiclusterv1beta1.GroupVersion.WithKind(multiclusterv1beta1.KindServiceImport)
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
)

func importRef(key types.NamespacedName) hubstore.Ref {
	return hubstore.Ref{GroupVersionKind: importKind, Namespace: key.Namespace, Name: key.Name}
}

// importer turns the recorded exports of one service into imports.
type importer struct {
	client    client.Client
	templates Templates
	// has says whether a member that the control plane is connected to has a namespace, and whether that is known.
	has func(cluster, namespace string) (present, known bool)
}

// set is everything about one exported service.
type set struct {
	key     types.NamespacedName
	records []*workv1alpha1.Work
	// works carry the imports and derived Services.
	works []*workv1alpha1.Work
	// service is what the exports add up to; nil if there are none.
	service *clusterset.Service
	// custom is an import that a user made on the control plane, and targets the clusters where a policy takes it.
	custom  *multiclusterv1beta1.ServiceImport
	targets []string
	// registered clusters, sorted by name.
	registered []*clusterv1alpha1.Cluster
}

// spec of the import in a cluster: what a user made and a policy takes there wins over what the exports add up to. It is
// nil if there is to be no import.
func (s *set) spec(cluster string) *multiclusterv1beta1.ServiceImportSpec {
	switch {
	case s.custom != nil && slices.Contains(s.targets, cluster):
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

func (s *set) names() []string {
	names := make([]string, len(s.registered))
	for i, c := range s.registered {
		names[i] = c.Name
	}
	return names
}

// Reconcile brings the imports of one service up to date. The request names it.
func (i *importer) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s, err := i.look(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	failures := []error{i.spread(ctx, s), i.judge(ctx, s), i.keep(ctx, s)}
	err = errors.Join(failures...)
	if errors.Is(err, endpointslices.ErrNoExecutionNamespace) {
		return reconcile.Result{RequeueAfter: endpointslices.RetryDelay}, nil
	}
	return reconcile.Result{}, err
}

// look gathers what there is.
func (i *importer) look(ctx context.Context, key types.NamespacedName) (*set, error) {
	s := &set{key: key}
	var clusters clusterv1alpha1.ClusterList
	if err := i.client.List(ctx, &clusters, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	for n := range clusters.Items {
		if clusters.Items[n].DeletionTimestamp == nil {
			s.registered = append(s.registered, &clusters.Items[n])
		}
	}
	slices.SortFunc(s.registered, func(a, b *clusterv1alpha1.Cluster) int { return strings.Compare(a.Name, b.Name) })
	works, err := endpointslices.ListWorks(ctx, i.client, client.MatchingFields{exportwork.ServiceIndex: exportwork.OfService(key)})
	if err != nil {
		return nil, err
	}
	registered := s.names()
	var exports []clusterset.Export
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		switch exportwork.RoleOf(w) {
		case multiclusterv1beta1.RoleExport:
			if w.DeletionTimestamp != nil || !slices.Contains(registered, cluster) {
				continue
			}
			export, err := exportwork.ReadExport(w)
			if err != nil {
				return nil, reconcile.TerminalError(err)
			}
			s.records, exports = append(s.records, w), append(exports, export)
		case multiclusterv1beta1.RoleImport, multiclusterv1beta1.RoleDerived:
			if !exportwork.Bound(w) {
				s.works = append(s.works, w)
			}
		}
	}
	if len(exports) > 0 {
		service := clusterset.Merge(exports)
		s.service = &service
	}
	return s, i.lookAtCustom(ctx, s)
}

// lookAtCustom finds an import that a user made on the control plane, and where it goes.
func (i *importer) lookAtCustom(ctx context.Context, s *set) error {
	meta, there := i.templates.Meta(importRef(s.key))
	if !there || madeFromExports(meta.Labels) || meta.DeletionTimestamp != nil {
		return nil
	}
	object, err := i.onHub(ctx, s.key)
	if err != nil || object == nil {
		return err
	}
	s.custom = object
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

// onHub reads the import on the control plane; nil if there is none or it is going.
func (i *importer) onHub(ctx context.Context, key types.NamespacedName) (*multiclusterv1beta1.ServiceImport, error) {
	obj, err := i.templates.Get(ctx, importRef(key))
	if apierrors.IsNotFound(err) || err == nil && obj.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	object := &multiclusterv1beta1.ServiceImport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, object); err != nil {
		return nil, fmt.Errorf("reading ServiceImport %s: %w", key, err)
	}
	return object, nil
}

// imports says whether a service is imported in a cluster: where its namespace is. While that is not known, what is there
// stays. A cluster that an agent looks after gets its namespaces from the control plane.
func (i *importer) imports(s *set, cluster *clusterv1alpha1.Cluster, already bool) bool {
	switch {
	case s.spec(cluster.Name) == nil:
		return false
	case slices.Contains(s.targets, cluster.Name):
		return true
	case cluster.Spec.SyncMode == clusterv1alpha1.Pull:
		return i.namespaceOnHub(s.key.Namespace)
	}
	present, known := i.has(cluster.Name, s.key.Namespace)
	return present || !known && already
}

func (i *importer) namespaceOnHub(name string) bool {
	meta, there := i.templates.Meta(hubstore.Ref{GroupVersionKind: namespaceKind, Name: name})
	return there && meta.DeletionTimestamp == nil || name == corev1.NamespaceDefault
}

// spread writes the Works of every cluster that imports the service and deletes those of others. One that fails does not
// hold the rest.
func (i *importer) spread(ctx context.Context, s *set) error {
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
			failures = append(failures, i.place(ctx, s, cluster.Name, surplus))
		}
	}
	return errors.Join(append(failures, endpointslices.DeleteAll(ctx, i.client, slices.Collect(maps.Values(surplus))))...)
}

// place writes the Works of one cluster, and takes them out of those that are too many.
func (i *importer) place(ctx context.Context, s *set, cluster string, surplus map[types.NamespacedName]*workv1alpha1.Work) error {
	derived, err := endpointslices.GetWorkOf(ctx, i.client, cluster, exportwork.DerivedName(s.key))
	if err != nil {
		return err
	}
	desired, err := derivedWork(cluster, s.key, *s.spec(cluster), s.exporting(), derived)
	if err != nil {
		return err
	}
	if derived == nil || headless(derived) == headless(desired) { // else it has to go first: an address cannot be given up
		delete(surplus, client.ObjectKeyFromObject(desired))
		err = i.write(ctx, derived, desired)
	}
	if s.service == nil || s.custom != nil && slices.Contains(s.targets, cluster) {
		return err // the import itself is the binding's
	}
	existing, failure := endpointslices.GetWorkOf(ctx, i.client, cluster, exportwork.ImportName(s.key))
	if failure != nil {
		return errors.Join(err, failure)
	}
	work, failure := importWork(cluster, ImportObject(s.key, *s.service), existing)
	if failure != nil {
		return errors.Join(err, failure)
	}
	delete(surplus, client.ObjectKeyFromObject(work))
	return errors.Join(err, i.write(ctx, existing, work))
}

// write leaves alone what is a policy's.
func (i *importer) write(ctx context.Context, existing, desired *workv1alpha1.Work) error {
	if existing != nil && exportwork.Bound(existing) {
		return nil
	}
	return endpointslices.Write(ctx, i.client, existing, desired)
}

// judge notes on every record what is made of its export.
func (i *importer) judge(ctx context.Context, s *set) error {
	if s.service == nil {
		return nil
	}
	note, err := json.Marshal(exportwork.Verdict{Reasons: s.service.Reasons(), Message: s.service.Messages(), Obstacles: obstacles(s.works)})
	if err != nil {
		return fmt.Errorf("encoding what is made of the export of %s: %w", s.key, err)
	}
	var failures []error
	for _, record := range s.records {
		noted := record.DeepCopy()
		noted.Annotations = labels.Merge(noted.Annotations, map[string]string{multiclusterv1beta1.VerdictAnnotation: string(note)})
		failures = append(failures, endpointslices.Write(ctx, i.client, record, noted))
	}
	return errors.Join(failures...)
}

// obstacles say in which clusters something could not be applied, and why.
func obstacles(works []*workv1alpha1.Work) string {
	found := map[string]string{}
	for _, w := range works {
		cluster, _ := workv1alpha1.ClusterOfExecutionNamespace(w.Namespace)
		if refusal := exportwork.Refusal(w); refusal != "" && w.DeletionTimestamp == nil {
			found[cluster] = fmt.Sprintf("cluster %s: %s", cluster, refusal)
		}
	}
	return strings.Join(slices.Sorted(maps.Values(found)), "; ")
}

// Templates is the hub shore as this room uses it; *template.Store is one.
type Templates interface {
	Subscribe(func(hubstore.Ref))
	WaitForSync(context.Context) error
	Meta(hubstore.Ref) (*metav1.PartialObjectMetadata, bool)
	Get(context.Context, hubstore.Ref) (*unstructured.Unstructured, error)
	PatchMetadata(context.Context, hubstore.Ref, []byte) (*unstructured.Unstructured, error)
}

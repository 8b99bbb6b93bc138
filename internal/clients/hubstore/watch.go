package hubstore

import (
	"context"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/expectations"
)

// lastAppliedAnnotation holds a whole object; "kubectl apply" writes it.
const lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

// digestPrefix marks a digest kept in place of a value; informers may transform
// an object twice.
const digestPrefix = "fnv64a:"

// watch is the informer of one kind.
type watch struct {
	kind
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	// writes are those whose watch event has not come yet.
	writes expectations.Writes[*metav1.PartialObjectMetadata]
}

// newWatch prepares an informer for the metadata of one kind, in all
// namespaces. It runs once run is called.
func (s *Store) newWatch(ctx context.Context, k kind) (*watch, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(s.metadata, k.gvr, metav1.NamespaceAll, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, leaveOut(k.gvk)).Informer()
	w := &watch{kind: k, informer: informer}
	if err := informer.SetTransform(s.slim(k.gvk)); err != nil {
		return nil, err
	}
	logger := log.FromContext(ctx).WithName("template").WithValues("kind", k.gvk.Kind)
	_, err := informer.AddEventHandler(s.handlers.Wrap(logger, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { s.notifyObject(w, obj) },
		UpdateFunc: func(before, after any) {
			w.writes.Observe(after.(*metav1.PartialObjectMetadata))
			if changed(before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata)) {
				s.follow(w, before.(*metav1.PartialObjectMetadata), after.(*metav1.PartialObjectMetadata))
				s.notifyObject(w, after)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			} else if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
				s.follow(w, meta, nil)
				if leaveOut(k.gvk) == nil { // else its labels may have changed only
					s.deleted.Add(meta.UID, nil)
				}
			}
			if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
				w.writes.Forget(refTo(k.gvk, meta).objectKey())
			}
			s.notifyObject(w, obj)
		},
	}))
	if err != nil {
		return nil, err
	}
	if k.gvk.GroupKind() == definitionKind {
		_, err = informer.AddEventHandler(s.handlers.Wrap(logger, s.definitions.handler()))
	}
	return w, err
}

// run starts the informer. Start waits for it.
func (s *Store) run(ctx context.Context, w *watch) {
	ctx, w.stop = context.WithCancel(ctx)
	s.running.Go(func() { w.informer.RunWithContext(ctx) })
}

func (s *Store) notifyObject(w *watch, obj any) {
	meta, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	if ref := refTo(w.gvk, meta); !s.never(ref) { // it may have been a template before
		s.notify(ref)
	}
}

// seen is the metadata of one object in the informer, nil if it is not there.
func (w *watch) seen(ref Ref) *metav1.PartialObjectMetadata {
	item, exists, err := w.informer.GetIndexer().GetByKey(ref.key())
	if err != nil || !exists { // a store in memory returns no error
		return nil
	}
	return item.(*metav1.PartialObjectMetadata)
}

func (s *Store) refsOf(w *watch) []Ref {
	var refs []Ref
	for _, item := range w.informer.GetIndexer().List() {
		meta := item.(*metav1.PartialObjectMetadata)
		if ref := refTo(w.gvk, meta); s.Stays(ref, meta) == "" {
			refs = append(refs, ref)
		}
	}
	return refs
}

// leaveOut selects roles and APIServices other than those that an API server keeps for itself, ReplicaSets that are stored, and
// ControllerRevisions other than those in which the control plane keeps the history of templates.
func leaveOut(gvk schema.GroupVersionKind) func(*metav1.ListOptions) {
	without := ""
	switch {
	case gvk.Group == "rbac.authorization.k8s.io":
		without = bootstrapLabel
	case gvk.Group == "apiregistration.k8s.io":
		without = RegisteredLabel
	case gvk.GroupKind() == schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		without = workv1alpha1.DerivedLabel
	case gvk.GroupKind() == controllerRevisionKind:
		without = workv1alpha1.HistoryLabel
	default:
		return nil
	}
	return func(options *metav1.ListOptions) { options.LabelSelector = "!" + without }
}

// slim drops what the store does not return. Of objects that are no templates nothing but the name is kept.
func (s *Store) slim(gvk schema.GroupVersionKind) cache.TransformFunc {
	return func(item any) (any, error) {
		meta, ok := item.(*metav1.PartialObjectMetadata)
		if !ok {
			return item, nil
		}
		meta.TypeMeta = metav1.TypeMeta{}
		meta.ManagedFields = nil
		if s.Stays(refTo(gvk, meta), meta) != "" {
			meta.ObjectMeta = metav1.ObjectMeta{
				Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion,
			}
			return meta, nil
		}
		if applied, ok := meta.Annotations[lastAppliedAnnotation]; ok && !strings.HasPrefix(applied, digestPrefix) {
			digest := fnv.New64a()
			digest.Write([]byte(applied))
			meta.Annotations[lastAppliedAnnotation] = digestPrefix + strconv.FormatUint(digest.Sum64(), 36)
		}
		return meta, nil
	}
}

// changed returns whether more than the status changed. Kinds without a generation do not show that, so that every change of them counts.
func changed(before, after *metav1.PartialObjectMetadata) bool {
	if before.ResourceVersion == after.ResourceVersion {
		return false
	}
	return after.Generation == 0 ||
		before.Generation != after.Generation ||
		before.UID != after.UID ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		!maps.Equal(before.Labels, after.Labels) ||
		!maps.Equal(before.Annotations, after.Annotations)
}

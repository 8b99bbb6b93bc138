package apistore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// managers has the field manager of each kind, for all members.
type managers struct {
	builtin managedfields.TypeConverter

	mu    sync.Mutex
	known map[string]*managedfields.FieldManager
}

func newManagers() *managers {
	return &managers{builtin: applyconfigurations.NewTypeConverter(clientgoscheme.Scheme), known: map[string]*managedfields.FieldManager{}}
}

// of returns the field manager of a resource.
func (m *managers) of(r Served, subresource string) (*managedfields.FieldManager, error) {
	key := r.gvk().String() + "/" + subresource
	m.mu.Lock()
	defer m.mu.Unlock()
	if found, ok := m.known[key]; ok {
		return found, nil
	}
	build, converter := managedfields.NewDefaultFieldManager, m.builtin
	if r.custom {
		build, converter = managedfields.NewDefaultCRDFieldManager, managedfields.NewDeducedTypeConverter()
	}
	made, err := build(converter, oneVersion{}, oneVersion{}, oneVersion{}, r.gvk(), r.GroupVersion(), subresource, nil)
	if err != nil {
		return nil, fmt.Errorf("building the field manager of %s: %w", r.Kind, err)
	}
	m.known[key] = made
	return made, nil
}

// oneVersion is the conversion and defaulting of a field manager for objects that have one version and no defaults.
type oneVersion struct{}

func (oneVersion) Convert(_, _, _ any) error { return nil }
func (oneVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (oneVersion) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
func (oneVersion) Default(runtime.Object) {}
func (oneVersion) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// Change is a request that writes one object.
type Change struct {
	Served
	Key           types.NamespacedName
	Subresource   string
	Manager       string
	Force, DryRun bool
}

// Create stores a new object.
func (s *Store) Create(ctx context.Context, c Change, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(object.GetGenerateName() + utilrand.String(5))
	}
	c.Key.Name = object.GetName()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get(c.GroupVersionResource, c.Key) != nil {
		return nil, apierrors.NewAlreadyExists(c.GroupResource(), c.Key.Name)
	}
	object.SetResourceVersion("")
	return s.write(ctx, c, nil, object, func(manager *managedfields.FieldManager, live *unstructured.Unstructured) (runtime.Object, error) {
		return manager.Update(live, object, c.Manager)
	})
}

// Update replaces an object.
func (s *Store) Update(ctx context.Context, c Change, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.live(c)
	if err != nil {
		return nil, err
	}
	return s.replace(ctx, c, live, object)
}

func (s *Store) replace(ctx context.Context, c Change, live, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if c.Subresource == "status" {
		status := object.Object["status"]
		object = live.DeepCopy()
		object.Object["status"] = status
	} else if status, ok := live.Object["status"]; ok {
		object.Object["status"] = status
	}
	return s.write(ctx, c, live, object, func(manager *managedfields.FieldManager, live *unstructured.Unstructured) (runtime.Object, error) {
		return manager.Update(live, object, c.Manager)
	})
}

// MergePatch changes an object by a JSON merge patch.
func (s *Store) MergePatch(ctx context.Context, c Change, patch []byte) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.live(c)
	if err != nil {
		return nil, err
	}
	raw, err := jsonpatch.MergePatch(s.get(c.GroupVersionResource, c.Key).Raw, patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.replace(ctx, c, live, object)
}

// Apply is a server-side apply.
func (s *Store) Apply(ctx context.Context, c Change, body []byte) (*unstructured.Unstructured, error) {
	applied := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(body, &applied.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if c.Manager == "" {
		return nil, apierrors.NewBadRequest("fieldManager is required for apply patch")
	}
	if applied.GetName() != "" && applied.GetName() != c.Key.Name || applied.GroupVersionKind() != c.gvk() {
		return nil, apierrors.NewBadRequest("the object is not that of the request")
	}
	applied.SetName(c.Key.Name)
	if c.Namespaced {
		applied.SetNamespace(c.Key.Namespace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var live *unstructured.Unstructured
	if s.get(c.GroupVersionResource, c.Key) != nil {
		var err error
		if live, err = s.live(c); err != nil {
			return nil, err
		}
	} else if applied.GetUID() != "" {
		return nil, apierrors.NewConflict(c.GroupResource(), c.Key.Name, fmt.Errorf("the object with UID %s does not exist", applied.GetUID()))
	}
	return s.write(ctx, c, live, applied, func(manager *managedfields.FieldManager, live *unstructured.Unstructured) (runtime.Object, error) {
		return manager.Apply(live, applied, c.Manager, c.Force)
	})
}

// live reads the object of a change.
func (s *Store) live(c Change) (*unstructured.Unstructured, error) {
	object := s.get(c.GroupVersionResource, c.Key)
	if object == nil {
		return nil, apierrors.NewNotFound(c.GroupResource(), c.Key.Name)
	}
	return object.Decode()
}

// write merges a change into an object and stores the result. Live is nil for a new object. Wanted is the object of the request, for
// its preconditions.
func (s *Store) write(ctx context.Context, c Change, live, wanted *unstructured.Unstructured,
	merge func(*managedfields.FieldManager, *unstructured.Unstructured) (runtime.Object, error),
) (*unstructured.Unstructured, error) {
	if err := s.preconditions(c, live, wanted); err != nil {
		return nil, err
	}
	manager, err := s.managers.of(c.Served, c.Subresource)
	if err != nil {
		return nil, err
	}
	base := live
	if base == nil {
		base = &unstructured.Unstructured{Object: map[string]any{}}
		base.SetGroupVersionKind(c.gvk())
	}
	merged, err := merge(manager, base.DeepCopy())
	if err != nil {
		return nil, err
	}
	object, ok := merged.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("merging gives a %T", merged)
	}
	identify(c, live, object)
	if live != nil {
		same, err := fieldmanager.IgnoreManagedFieldsTimestampsTransformer(ctx, object, live)
		if err != nil {
			return nil, fmt.Errorf("comparing managed fields: %w", err)
		}
		object = same.(*unstructured.Unstructured)
		object.SetResourceVersion(live.GetResourceVersion())
		if equality.Semantic.DeepEqual(live.Object, object.Object) {
			return live, nil
		}
	}
	if c.DryRun {
		return object, nil
	}
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return object, s.removed(c.Served, object)
	}
	if err := s.put(c.GroupVersionResource, object); err != nil {
		return nil, err
	}
	answer := object.DeepCopy()
	return answer, s.control(c.Served, object)
}

func (s *Store) preconditions(c Change, live, wanted *unstructured.Unstructured) error {
	if live == nil {
		if c.Namespaced && s.get(Namespaces, types.NamespacedName{Name: c.Key.Namespace}) == nil {
			return apierrors.NewNotFound(Namespaces.GroupResource(), c.Key.Namespace)
		}
		return nil
	}
	if uid := wanted.GetUID(); uid != "" && uid != live.GetUID() {
		return apierrors.NewInvalid(c.gvk().GroupKind(), c.Key.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
	}
	if version := wanted.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return apierrors.NewConflict(c.GroupResource(), c.Key.Name, fmt.Errorf("the object has been modified"))
	}
	return nil
}

// identify sets the metadata that only the server sets.
func identify(c Change, live, object *unstructured.Unstructured) {
	object.SetName(c.Key.Name)
	object.SetNamespace(c.Key.Namespace)
	generated := c.Group == "apps" || c.Group == "batch" || c.custom
	if live == nil {
		object.SetUID(uuid.NewUUID())
		object.SetCreationTimestamp(metav1.NewTime(time.Now()))
		object.SetDeletionTimestamp(nil)
		if generated {
			object.SetGeneration(1)
		}
		return
	}
	object.SetUID(live.GetUID())
	object.SetCreationTimestamp(live.GetCreationTimestamp())
	object.SetDeletionTimestamp(live.GetDeletionTimestamp())
	object.SetGeneration(live.GetGeneration())
	if generated && !equality.Semantic.DeepEqual(live.Object["spec"], object.Object["spec"]) {
		object.SetGeneration(live.GetGeneration() + 1)
	}
}

// Delete deletes an object, or marks it while it has finalizers.
func (s *Store) Delete(c Change, options *metav1.DeleteOptions) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live, err := s.live(c)
	if err != nil {
		return nil, err
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != live.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != live.GetResourceVersion() {
			return nil, apierrors.NewConflict(c.GroupResource(), c.Key.Name, fmt.Errorf("the preconditions do not hold"))
		}
	}
	if c.DryRun || len(live.GetFinalizers()) > 0 && live.GetDeletionTimestamp() != nil {
		return live, nil
	}
	if len(live.GetFinalizers()) > 0 {
		now := metav1.NewTime(time.Now())
		live.SetDeletionTimestamp(&now)
		err := s.put(c.GroupVersionResource, live)
		return live, err
	}
	return live, s.removed(c.Served, live)
}

// removed deletes an object with what it contains.
func (s *Store) removed(r Served, object *unstructured.Unstructured) error {
	if r.GroupVersionResource == Namespaces {
		for resource := range s.objects {
			for _, inner := range s.list(resource, object.GetName()) {
				content, err := inner.Decode()
				if err == nil {
					err = s.remove(resource, content)
				}
				if err != nil {
					return err
				}
			}
		}
	}
	if err := s.remove(r.GroupVersionResource, object); err != nil {
		return err
	}
	if r.GroupVersionResource == definitions {
		return s.defined()
	}
	return nil
}

// control does what the controllers of a cluster do about a written object.
func (s *Store) control(r Served, object *unstructured.Unstructured) error {
	switch {
	case r.GroupVersionResource == definitions:
		names, _, _ := unstructured.NestedMap(object.Object, "spec", "names")
		if set(object, map[string]any{"acceptedNames": names, "conditions": []any{Condition("NamesAccepted"), Condition("Established")}}) {
			if err := s.put(definitions, object); err != nil {
				return err
			}
		}
		return s.defined()
	case r.Group == "apps" && slices.Contains([]string{"deployments", "statefulsets", "replicasets"}, r.Resource):
		replicas, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		if !found {
			replicas = 1
		}
		status := map[string]any{"observedGeneration": object.GetGeneration()}
		for _, field := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
			status[field] = replicas
		}
		if r.Resource == "deployments" {
			status["conditions"] = []any{Condition("Available")}
		}
		if set(object, status) {
			return s.put(r.GroupVersionResource, object)
		}
	case s.Control != nil && s.Control(object):
		return s.put(r.GroupVersionResource, object)
	}
	return nil
}

// set writes a status, unless it is that of the present generation already.
func set(object *unstructured.Unstructured, status map[string]any) bool {
	if before, ok := object.Object["status"].(map[string]any); ok {
		if before["observedGeneration"] == status["observedGeneration"] {
			return false
		}
	}
	object.Object["status"] = status
	return true
}

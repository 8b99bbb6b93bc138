package declarative

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/declarative/sandbox"
)

// Store is the layer of customizations. Lookups never wait for a change.
type Store struct {
	kinds    atomic.Pointer[map[schema.GroupVersionKind]*scripts]
	machines *sandbox.Pool
	// setting serializes changes; reading needs no lock.
	setting sync.Mutex
}

var (
	_ interpret.Layer      = (*Store)(nil)
	_ interpret.Changeable = (*Store)(nil)
)

// scripts are those of all customizations of one kind.
type scripts struct {
	// operations compiles the scripts with the first call.
	operations func() *interpret.Operations
	// sources are the scripts by operation, each with the name of its customization.
	sources map[configv1alpha1.InterpreterOperation][]string
}

// New returns a store without customizations.
func New() *Store {
	s := &Store{machines: sandbox.NewPool(map[string]sandbox.Library{"kube": kube()})}
	s.kinds.Store(&map[schema.GroupVersionKind]*scripts{})
	return s
}

// Lookup implements [interpret.Layer].
func (s *Store) Lookup(kind schema.GroupVersionKind) *interpret.Operations {
	if found := (*s.kinds.Load())[kind]; found != nil {
		return found.operations()
	}
	return nil
}

// Set replaces all customizations and returns the kinds whose scripts changed. Scripts are compiled once, when an object of their
// kind is first interpreted. A script that does not compile fails each operation that it is for: no other layer replaces it. The
// customizations must not be changed afterwards.
func (s *Store) Set(customizations []*configv1alpha1.ResourceInterpreterCustomization) []schema.GroupVersionKind {
	s.setting.Lock()
	defer s.setting.Unlock()
	sorted := slices.Clone(customizations)
	slices.SortFunc(sorted, func(a, b *configv1alpha1.ResourceInterpreterCustomization) int {
		return cmp.Compare(a.Name, b.Name)
	})
	grouped := map[schema.GroupVersionKind][]*configv1alpha1.ResourceInterpreterCustomization{}
	for _, customization := range sorted {
		target := customization.Spec.Target
		kind := schema.FromAPIVersionAndKind(target.APIVersion, target.Kind)
		grouped[kind] = append(grouped[kind], customization)
	}
	present := *s.kinds.Load()
	next := make(map[schema.GroupVersionKind]*scripts, len(grouped))
	var changed []schema.GroupVersionKind
	for kind, list := range grouped {
		sources := sourcesOf(list)
		if old := present[kind]; old != nil && maps.EqualFunc(old.sources, sources, slices.Equal) {
			next[kind] = old
			continue
		}
		next[kind] = &scripts{sync.OnceValue(func() *interpret.Operations { return s.operations(list) }), sources}
		changed = append(changed, kind)
	}
	for kind := range present {
		if next[kind] == nil {
			changed = append(changed, kind)
		}
	}
	s.kinds.Store(&next)
	slices.SortFunc(changed, func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	return changed
}

// Fingerprint implements [interpret.Changeable].
func (s *Store) Fingerprint(kind schema.GroupVersionKind, operation configv1alpha1.InterpreterOperation) string {
	if found := (*s.kinds.Load())[kind]; found != nil && len(found.sources[operation]) > 0 {
		return fmt.Sprintf("%q", found.sources[operation])
	}
	return ""
}

func sourcesOf(list []*configv1alpha1.ResourceInterpreterCustomization) map[configv1alpha1.InterpreterOperation][]string {
	sources := map[configv1alpha1.InterpreterOperation][]string{}
	for _, customization := range list {
		for _, rule := range rules(customization) {
			sources[rule.Operation] = append(sources[rule.Operation], customization.Name+"\n"+rule.source)
		}
	}
	return sources
}

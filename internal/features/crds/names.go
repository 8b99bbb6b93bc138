package crds

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Indexes of Works by the definitions that they carry.
const (
	indexDefinedKind = "flagship.io/defined-kind"
	indexDefinition  = "flagship.io/definition"
)

// workNames finds definitions in Works.
type workNames struct{ works client.Reader }

// carried is what a manifest has of the names of a definition.
type carried struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
	} `json:"spec"`
}

func (c carried) kind() runtimeschema.GroupKind {
	return runtimeschema.GroupKind{Group: c.Spec.Group, Kind: c.Spec.Names.Kind}
}

// NamesFromWorks returns the Names of a process that reads the Works of a cluster, and not the definitions of the control plane: an
// agent. Events are about the Work of a definition.
func NamesFromWorks(ctx context.Context, indexer client.FieldIndexer, works client.Reader) (Names, error) {
	for name, key := range map[string]func(carried) string{
		indexDefinedKind: func(c carried) string { return c.kind().String() },
		indexDefinition:  func(c carried) string { return c.Metadata.Name },
	} {
		err := indexer.IndexField(ctx, &workv1alpha1.Work{}, name, func(obj client.Object) []string {
			var keys []string
			for _, definition := range carriedBy(obj.(*workv1alpha1.Work)) {
				keys = append(keys, key(definition))
			}
			return keys
		})
		if err != nil {
			return nil, fmt.Errorf("indexing Works by %s: %w", name, err)
		}
	}
	return workNames{works}, nil
}

// carriedBy lists the definitions that a Work carries.
func carriedBy(work *workv1alpha1.Work) []carried {
	var list []carried
	for i := range work.Spec.Workload.Manifests {
		raw := work.Spec.Workload.Manifests[i].Raw
		if !bytes.Contains(raw, []byte(definitionKind.Kind)) {
			continue // parsing every manifest would cost more
		}
		var definition carried
		if json.Unmarshal(raw, &definition) == nil && isDefinitionKind(definition.GroupVersionKind()) {
			list = append(list, definition)
		}
	}
	return list
}

// find returns a Work that an index has under a key; nil if there is none.
func (n workNames) find(ctx context.Context, index, key string) *workv1alpha1.Work {
	works := &workv1alpha1.WorkList{}
	// The cache fails only before it is started.
	err := n.works.List(ctx, works, client.MatchingFields{index: key}, client.UnsafeDisableDeepCopy)
	if err != nil || len(works.Items) == 0 {
		return nil
	}
	return &works.Items[0]
}

// Named implements Names.
func (n workNames) Named(ctx context.Context, kind runtimeschema.GroupVersionKind) string {
	work := n.find(ctx, indexDefinedKind, kind.GroupKind().String())
	if work == nil {
		return ""
	}
	for _, definition := range carriedBy(work) {
		if definition.kind() == kind.GroupKind() {
			return definition.Metadata.Name
		}
	}
	return ""
}

// Reference implements Names.
func (n workNames) Reference(ctx context.Context, definition string) (corev1.ObjectReference, bool) {
	work := n.find(ctx, indexDefinition, definition)
	if work == nil {
		return corev1.ObjectReference{}, false
	}
	return events.Work(work), true
}

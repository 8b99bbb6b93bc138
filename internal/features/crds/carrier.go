package crds

import (
	"context"
	"errors"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flagship-k8s/flagship/internal/clients/hubstore"
	"github.com/flagship-k8s/flagship/internal/knowledge/conversion"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

// Templates is what the package needs of the store; *hubstore.Store has it.
type Templates interface {
	hubstore.Reader
	Canonical(runtimeschema.GroupVersionKind) (runtimeschema.GroupVersionKind, bool)
	Mapping(runtimeschema.GroupVersionKind) (resource runtimeschema.GroupVersionResource, namespaced, ok bool)
	Subscribe(func(hubstore.Ref))
}

// Deps is what a Carrier needs. All fields are required.
type Deps struct {
	// Templates has the kinds and the definitions of the control plane.
	Templates Templates
	// Versions converts objects to other versions.
	Versions Converter
	// Works reads Works from the cache.
	Works client.Reader
	// Changes has the kinds published whose objects become something else in members after a change of their definition.
	Changes *interpret.Changes
}

// Carrier is what definitions and their instances mean for members: a conversion.Adviser for the stages.
type Carrier struct {
	conversion.Unchanged
	deps Deps

	mu sync.Mutex
	// known are definitions of the hub by name, translated those of them whose objects do not go everywhere as they are.
	known      map[string]knownDefinition
	translated map[string]runtimeschema.GroupKind
}

// New returns a Carrier.
func New(deps Deps) (*Carrier, error) {
	if deps.Templates == nil || deps.Versions == nil || deps.Works == nil || deps.Changes == nil {
		return nil, errors.New("carrying definitions needs Templates, Versions, Works and Changes")
	}
	c := &Carrier{deps: deps, known: map[string]knownDefinition{}, translated: map[string]runtimeschema.GroupKind{}}
	deps.Templates.Subscribe(func(ref hubstore.Ref) {
		if isDefinitionKind(ref.GroupVersionKind) {
			deps.Changes.Publish(c.redefined(ref.Name))
		}
	})
	return c, nil
}

// Definition implements conversion.Adviser.
func (c *Carrier) Definition(kind runtimeschema.GroupVersionKind) string {
	if !strings.Contains(kind.Group, ".") {
		return "" // every group of a definition has one
	}
	resource, _, ok := c.deps.Templates.Mapping(kind)
	if !ok {
		return ""
	}
	name := nameOf(resource)
	if _, defined := c.deps.Templates.Meta(hubstore.Ref{GroupVersionKind: definitionKind, Name: name}); !defined && !hubstore.InEveryMember(name) {
		return ""
	}
	return name
}

// Named implements Names.
func (c *Carrier) Named(_ context.Context, kind runtimeschema.GroupVersionKind) string {
	return c.Definition(kind)
}

// Reference implements Names: events about a definition are about the template.
func (c *Carrier) Reference(_ context.Context, name string) (corev1.ObjectReference, bool) {
	onHub, ok := c.deps.Templates.Meta(hubstore.Ref{GroupVersionKind: definitionKind, Name: name})
	if !ok {
		return corev1.ObjectReference{}, false
	}
	apiVersion, kind := definitionKind.ToAPIVersionAndKind()
	return corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: onHub.UID}, true
}

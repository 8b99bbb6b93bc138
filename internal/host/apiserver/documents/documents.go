package documents

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Custom serves the documents of version 3 of a server of custom resources in the place of upstream.
type Custom struct {
	definitions informers.CustomResourceDefinitionInformer
	documents   *shelf
}

// Replace takes the documents of version 3 out of upstream's hands. Call it when the server is prepared and does not run yet: a hook that starts
// upstream's controller looks then whether there is anything to feed. It returns nil for a server without documents.
func Replace(server *genericapiserver.GenericAPIServer, definitions informers.CustomResourceDefinitionInformer) (*Custom, error) {
	service := server.OpenAPIV3VersionedService
	if service == nil {
		return nil, nil
	}
	documents := newShelf()
	if err := documents.adopt(service); err != nil {
		return nil, err
	}
	server.OpenAPIV3VersionedService = nil
	paths := server.Handler.NonGoRestfulMux
	paths.Unregister(root)
	paths.Unregister(root + "/")
	register(paths, documents)
	return &Custom{definitions, documents}, nil
}

// Run publishes the documents of custom resources until ctx ends.
func (c *Custom) Run(ctx context.Context) error {
	definitions := c.definitions
	p := newPublisher(log.FromContext(ctx), c.documents)
	handle, err := definitions.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.set(obj) },
		UpdateFunc: func(_, obj any) { p.set(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
				p.update(definition.Name, nil)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching definitions: %w", err)
	}
	<-ctx.Done()
	return definitions.Informer().RemoveEventHandler(handle)
}

// publisher has the document of every group version.
type publisher struct {
	log   logr.Logger
	shelf *shelf
	// compiled is what builderID returns.
	compiled string

	mu        sync.Mutex
	documents map[schema.GroupVersion]*document
}

func newPublisher(logger logr.Logger, documents *shelf) *publisher {
	return &publisher{log: logger, shelf: documents, compiled: builderID(), documents: map[schema.GroupVersion]*document{}}
}

func (p *publisher) set(obj any) {
	definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return
	}
	if !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
		p.update(definition.Name, nil)
		return
	}
	p.update(definition.Name, definition)
}

// update puts a definition into the documents of the versions that it serves, and takes it out of all others. Nil serves
// none.
func (p *publisher) update(name string, definition *apiextensionsv1.CustomResourceDefinition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	served := map[schema.GroupVersion]bool{}
	if definition != nil {
		for i := range definition.Spec.Versions {
			if version := &definition.Spec.Versions[i]; version.Served {
				served[schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}] = true
			}
		}
	}
	for gv, d := range p.documents {
		if served[gv] || !d.drop(name) {
			continue
		}
		if len(d.definitions) == 0 {
			delete(p.documents, gv)
			p.shelf.drop(path(gv))
			continue
		}
		p.shelf.set(path(gv), d.tag(p.compiled), d.build)
	}
	for gv := range served {
		d, published := p.documents[gv]
		if !published {
			d = &document{log: p.log, version: gv.Version, definitions: map[string]*apiextensionsv1.CustomResourceDefinition{}}
			p.documents[gv] = d
		}
		d.put(definition)
		p.shelf.set(path(gv), d.tag(p.compiled), d.build)
	}
}

func path(gv schema.GroupVersion) string { return "apis/" + gv.Group + "/" + gv.Version }

// document is that of one group version.
type document struct {
	log     logr.Logger
	version string

	mu          sync.Mutex
	definitions map[string]*apiextensionsv1.CustomResourceDefinition
}

func (d *document) put(definition *apiextensionsv1.CustomResourceDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.definitions[definition.Name] = definition
}

// drop returns whether the definition was there.
func (d *document) drop(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.definitions[name]
	delete(d.definitions, name)
	return there
}

// sorted has the definitions by name.
func (d *document) sorted() []*apiextensionsv1.CustomResourceDefinition {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.Collect(maps.Values(d.definitions))
	slices.SortFunc(all, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// tag is another one for other definitions.
func (d *document) tag(compiled string) string {
	described := []string{compiled}
	for _, definition := range d.sorted() {
		described = append(described, fmt.Sprintf("%s,%d", definition.UID, definition.Generation))
	}
	return hash(described)
}

// build leaves out what cannot be described.
func (d *document) build() (*spec3.OpenAPI, error) {
	var parts []*spec3.OpenAPI
	definitions := d.sorted()
	for _, definition := range definitions {
		part, err := builder.BuildOpenAPIV3(definition, d.version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			d.log.Error(err, "A definition is not in the OpenAPI document", "definition", definition.Name, "version", d.version)
			continue
		}
		parts = append(parts, part)
	}
	whole, err := builder.MergeSpecsV3(parts...)
	if err != nil {
		return nil, fmt.Errorf("making one OpenAPI document of %d definitions: %w", len(definitions), err)
	}
	return whole, nil
}

package documents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	informers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Service is where documents are published, by group version; *handler3.OpenAPIService is one.
type Service interface {
	UpdateGroupVersionLazy(path string, document cached.Value[*spec3.OpenAPI])
	DeleteGroupVersion(path string)
}

// Run publishes documents until ctx ends.
func Run(ctx context.Context, definitions informers.CustomResourceDefinitionInformer, service Service) error {
	p := newPublisher(log.FromContext(ctx), service)
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
	log     logr.Logger
	service Service

	mu        sync.Mutex
	documents map[schema.GroupVersion]*document
}

func newPublisher(logger logr.Logger, service Service) *publisher {
	return &publisher{log: logger, service: service, documents: map[schema.GroupVersion]*document{}}
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
		if !served[gv] && d.drop(name) == 0 {
			delete(p.documents, gv)
			p.service.DeleteGroupVersion(path(gv))
		}
	}
	for gv := range served {
		d, published := p.documents[gv]
		if !published {
			d = &document{log: p.log, version: gv.Version, definitions: map[string]*apiextensionsv1.CustomResourceDefinition{}}
			p.documents[gv] = d
		}
		d.put(definition)
		if !published {
			p.service.UpdateGroupVersionLazy(path(gv), d)
		}
	}
}

func path(gv schema.GroupVersion) string { return "apis/" + gv.Group + "/" + gv.Version }

// document is that of one group version. It is built when it is requested.
type document struct {
	log     logr.Logger
	version string

	mu          sync.Mutex
	definitions map[string]*apiextensionsv1.CustomResourceDefinition
	// built is what was handed out last, and of what.
	built *spec3.OpenAPI
	tag   string
}

func (d *document) put(definition *apiextensionsv1.CustomResourceDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.definitions[definition.Name] = definition
}

// drop returns how many definitions are left.
func (d *document) drop(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.definitions, name)
	return len(d.definitions)
}

// Get implements cached.Value. Its one caller stores a document when it gets a new tag, before it calls again; so what
// is requested again is emptied, since its holders never release it. It does not fail: after a failure they would
// write down an earlier one.
func (d *document) Get() (*spec3.OpenAPI, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.definitions))
	for name := range d.definitions {
		names = append(names, name)
	}
	slices.Sort(names)
	var tag strings.Builder
	for _, name := range names {
		fmt.Fprintf(&tag, "%s,%d ", d.definitions[name].UID, d.definitions[name].Generation)
	}
	if d.built != nil {
		*d.built = spec3.OpenAPI{}
		if d.tag == tag.String() {
			return d.built, d.tag, nil
		}
	}
	d.built, d.tag = d.build(names), tag.String()
	return d.built, d.tag, nil
}

func (d *document) build(names []string) *spec3.OpenAPI {
	var parts []*spec3.OpenAPI
	for _, name := range names {
		part, err := builder.BuildOpenAPIV3(d.definitions[name], d.version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			d.log.Error(err, "A definition is not in the OpenAPI document", "definition", name, "version", d.version)
			continue
		}
		parts = append(parts, part)
	}
	whole, err := builder.MergeSpecsV3(parts...)
	if err != nil {
		d.log.Error(err, "No OpenAPI document can be made of definitions", "definitions", names, "version", d.version)
		return &spec3.OpenAPI{}
	}
	return whole
}

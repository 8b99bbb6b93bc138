package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
)

const (
	// releasedPatience bounds the search for released objects: joining has succeeded by then.
	releasedPatience = 30 * time.Second
	// releasedPage is how many objects are requested at a time, and maxReleased how many of a kind are compared.
	releasedPage = 500
	maxReleased  = 10_000
	// maxNamed is how many objects a notice names.
	maxNamed = 10
)

// released are the objects in a cluster that a control plane released.
type released struct {
	// returning have a template, and staying have none.
	returning int
	staying   []string
	// others were released by another control plane.
	others int
}

// text is the notice about them, "" if there are none.
func (r released) text() string {
	var parts []string
	if r.returning > 0 {
		parts = append(parts, fmt.Sprintf("%d objects in the cluster that this control plane released before have a template: "+
			"each is taken back as it is when its template goes to the cluster", r.returning))
	}
	if n := len(r.staying); n > 0 {
		names := strings.Join(r.staying[:min(n, maxNamed)], ", ")
		if n > maxNamed {
			names += " and more"
		}
		parts = append(parts, fmt.Sprintf("%d that it released have no template any more, and stay as they are: %s", n, names))
	}
	if r.others > 0 {
		parts = append(parts, fmt.Sprintf("%d were released by another control plane and stay as they are; conflictResolution Overwrite takes them over", r.others))
	}
	return strings.Join(parts, "\n")
}

// findReleased lists the objects in a member that have the mark of a control plane. With an error it returns those that could be listed.
func findReleased(ctx context.Context, hub client.Client, member *rest.Config, controlPlane string) (released, error) {
	ctx, cancel := context.WithTimeout(ctx, releasedPatience)
	defer cancel()
	served, err := discovery.NewDiscoveryClientForConfig(member)
	if err != nil {
		return released{}, fmt.Errorf("building a client for the member: %w", err)
	}
	objects, err := metadata.NewForConfig(member)
	if err != nil {
		return released{}, fmt.Errorf("building a client for the member: %w", err)
	}
	lists, err := served.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return released{}, fmt.Errorf("listing what the member serves: %w", err)
	}
	var found released
	var faults []error
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "patch"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			err := found.add(ctx, hub, objects.Resource(version.WithResource(resource.Name)), version.WithKind(resource.Kind), controlPlane)
			if ctx.Err() != nil {
				return found, errors.Join(err, ctx.Err())
			}
			if !apierrors.IsForbidden(err) && !apierrors.IsMethodNotSupported(err) { // bounded rights, and what is no object
				faults = append(faults, err)
			}
		}
	}
	return found, errors.Join(faults...)
}

// add compares the objects of a resource with the templates.
func (r *released) add(ctx context.Context, hub client.Client, objects metadata.Getter, kind schema.GroupVersionKind, controlPlane string) error {
	options := metav1.ListOptions{LabelSelector: workv1alpha1.ReleasedByLabel + ",!" + workv1alpha1.ManagedLabel, Limit: releasedPage}
	for seen := 0; seen < maxReleased; {
		page, err := objects.List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range page.Items {
			obj := &page.Items[i]
			if obj.Labels[workv1alpha1.ReleasedByLabel] != controlPlane {
				r.others++
				continue
			}
			template := &metav1.PartialObjectMetadata{}
			template.SetGroupVersionKind(kind)
			err := hub.Get(ctx, client.ObjectKeyFromObject(obj), template)
			switch {
			case err == nil:
				r.returning++
			case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
				r.staying = append(r.staying, kind.Kind+" "+strings.TrimPrefix(obj.Namespace+"/"+obj.Name, "/"))
			default:
				return fmt.Errorf("looking for the template of %s %s: %w", kind.Kind, obj.Name, err)
			}
		}
		if seen += len(page.Items); page.Continue == "" {
			break
		}
		options.Continue = page.Continue
	}
	slices.Sort(r.staying)
	return nil
}

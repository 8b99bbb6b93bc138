package aggregate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

type definitionReport struct {
	Conditions []struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	} `json:"conditions"`
	StoredVersions []string `json:"storedVersions"`
}

func (r definitionReport) established() bool {
	for _, c := range r.Conditions {
		if c.Type == "Established" {
			return c.Status == "True"
		}
	}
	return false
}

// Definition sets two conditions on the control plane's definition: where its copies are established, and in which versions they
// store objects. Without copies it has neither. The rest of the status is about the control plane's own API server, and stays.
func (a Aggregation) Definition(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	list := reportsOf[definitionReport](items)
	status := statusCopy(template)
	if len(list) == 0 {
		a.setConditions(template, status, verdict{kind: workv1alpha1.DefinitionEstablishedInMembers}, verdict{kind: workv1alpha1.DefinitionStoredInOneVersion})
		return interpret.WithStatus(template, status), nil
	}
	a.setConditions(template, status, establishedIn(list), storedIn(list, storageVersion(template)))
	return interpret.WithStatus(template, status), nil
}

func establishedIn(list []report[definitionReport]) verdict {
	missing := clustersOf(list, func(r *report[definitionReport]) bool { return !r.applied || !r.status.established() })
	if len(missing) == 0 {
		return verdict{
			kind: workv1alpha1.DefinitionEstablishedInMembers, status: "True", reason: workv1alpha1.EstablishedEverywhereReason,
			message: fmt.Sprintf("Established in all %d clusters", len(list)),
		}
	}
	return verdict{
		kind: workv1alpha1.DefinitionEstablishedInMembers, status: "False", reason: workv1alpha1.NotEstablishedReason,
		message: fmt.Sprintf("Not established as it is now in %d of %d clusters: %s", len(missing), len(list), strings.Join(missing, ", ")),
	}
}

func storedIn(list []report[definitionReport], storage string) verdict {
	older := map[string][]string{}
	for i := range list {
		stored := list[i].status.StoredVersions
		for _, version := range stored[:min(len(stored), bounds.MaxStoredVersions)] {
			version = bounds.Cut(version, bounds.NameBytes)
			if version != storage {
				older[version] = append(older[version], list[i].cluster)
			}
		}
	}
	silent := clustersOf(list, func(r *report[definitionReport]) bool { return !r.reported })
	if len(older) == 0 && len(silent) == 0 {
		return verdict{
			kind: workv1alpha1.DefinitionStoredInOneVersion, status: "True", reason: workv1alpha1.OnlyStorageVersionReason,
			message: fmt.Sprintf("Every cluster keeps objects in version %s only", storage),
		}
	}
	var parts []string
	for _, version := range slices.Sorted(maps.Keys(older)) {
		parts = append(parts, fmt.Sprintf("%s in %s", version, strings.Join(older[version], ", ")))
	}
	if len(silent) > 0 {
		parts = append(parts, "unknown in "+strings.Join(silent, ", "))
	}
	return verdict{
		kind: workv1alpha1.DefinitionStoredInOneVersion, status: "False", reason: workv1alpha1.OlderVersionsStoredReason,
		message: "Objects may be stored in other versions: " + strings.Join(parts, "; "),
	}
}

func storageVersion(definition *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, entry := range versions {
		if version, _ := entry.(map[string]any); version["storage"] == true {
			return text(version["name"])
		}
	}
	return ""
}

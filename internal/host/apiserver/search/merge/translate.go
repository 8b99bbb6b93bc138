package merge

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

// Translate makes the decoded body of a write one for a cluster: with its own resource version instead of that of several clusters, and
// without the annotation that Mark adds. The body is an object, a patch, or the options of a deletion.
func Translate(body any, cluster string) error {
	switch body := body.(type) {
	case map[string]any:
		return translateObject(body, cluster)
	case []any:
		return translatePatch(body, cluster)
	}
	return nil
}

// translateObject changes an object, a patch that has the form of one, or the options of a deletion.
func translateObject(object map[string]any, cluster string) error {
	unstructured.RemoveNestedField(object, "metadata", "annotations", clusterv1alpha1.CachedFromClusterAnnotation)
	for _, path := range [][]string{{"metadata"}, {"preconditions"}} {
		parent, _, _ := unstructured.NestedFieldNoCopy(object, path...)
		fields, _ := parent.(map[string]any)
		if fields == nil {
			continue
		}
		if err := translateVersion(fields, "resourceVersion", cluster); err != nil {
			return err
		}
	}
	return nil
}

// translatePatch changes the operations of a JSON patch.
func translatePatch(operations []any, cluster string) error {
	for _, operation := range operations {
		fields, _ := operation.(map[string]any)
		if fields == nil || fields["path"] != "/metadata/resourceVersion" {
			continue
		}
		if err := translateVersion(fields, "value", cluster); err != nil {
			return err
		}
	}
	return nil
}

func translateVersion(fields map[string]any, name, cluster string) error {
	text, _ := fields[name].(string)
	of, err := ParseVersion(text)
	if err != nil || of == nil {
		return nil //nolint:nilerr // It is the version of a single API server, or none: the member decides.
	}
	if of[cluster] == "" {
		return fmt.Errorf("it was read from another cluster than %s: read it again", cluster)
	}
	fields[name] = of[cluster]
	return nil
}

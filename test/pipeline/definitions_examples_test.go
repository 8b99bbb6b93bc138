package pipeline_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// crdExample reads a manifest of examples/crds.
func crdExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "crds", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func crdExampleObject(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(crdExample(t, name), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// docs/crds.md walks through these files.
func TestTheExamplesOfDefinitions(t *testing.T) {
	fleet := shared.Start(t)
	backups := &definition{}
	if err := yaml.UnmarshalStrict(crdExample(t, "definition.yaml"), backups); err != nil {
		t.Fatal(err)
	}
	defined(t, fleet.Hub, backups)
	fleettest.ExpectEventually(t, fleet.Hub, backups, established)
	for _, name := range []string{"backup.yaml", "policy.yaml"} {
		object := crdExampleObject(t, name)
		fleettest.Create(t, fleet.Hub, object)
		t.Cleanup(func() {
			if err := fleet.Hub.Delete(context.WithoutCancel(t.Context()), object); client.IgnoreNotFound(err) != nil {
				t.Errorf("deleting %s: %v", name, err)
			}
		})
	}
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, backups, established)
		fleettest.ExpectEventually(t, m, crdExampleObject(t, "backup.yaml"), fleettest.Exists)
	}

	change := func(name string) {
		t.Helper()
		patch, err := yaml.YAMLToJSON(crdExample(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := fleet.Hub.Patch(t.Context(), backups.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(d *definition) map[string]apiextensionsv1.JSONSchemaProps {
		return d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	}
	change("tightened.yaml")
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, backups, func(d *definition) error {
			if spec(d)["keep"].Maximum == nil {
				return errors.New("the limit is not there")
			}
			return nil
		})
	}
	change("breaking.yaml")
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, fleet.Hub, definitionWork(m.Name, backups), isHeld("v1 .spec.owner is removed", m.Name, "default/nightly: loses spec.owner"))
	}
	fleettest.Update(t, fleet.Hub, backups, func(d *definition) { d.Annotations = map[string]string{workv1alpha1.AllowBreakingAnnotation: "true"} })
	for _, m := range fleet.Members {
		fleettest.ExpectEventually(t, m, backups, func(d *definition) error {
			if _, kept := spec(d)["owner"]; kept {
				return errors.New("the field is still there")
			}
			return nil
		})
	}
}

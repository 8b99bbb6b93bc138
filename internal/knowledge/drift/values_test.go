package drift_test

import (
	"encoding/json"
	"strings"
	"testing"

	fleetv1alpha1 "github.com/flagship-k8s/flagship/api/fleet/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/knowledge/drift"
)

// TestAnAnswerOfAnAgentIsBounded has a record with texts and numbers that no process of ours records.
func TestAnAnswerOfAnAgentIsBounded(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	objects := make([]fleetv1alpha1.DriftedObject, 10*drift.MaxObjects)
	for i := range objects {
		objects[i] = fleetv1alpha1.DriftedObject{
			Cluster: "other", Work: long, Object: fleetv1alpha1.ObjectIdentity{APIVersion: long, Kind: long, Namespace: long, Name: long},
			PutBack: -1, OmittedFields: -1, Recent: []fleetv1alpha1.PutBack{{Manager: long}}, Fields: []fleetv1alpha1.DriftedField{{Path: long, Manager: long, Found: long}},
		}
	}
	accepted := drift.Accept("eu", objects)
	data, err := json.Marshal(accepted)
	if err != nil || len(accepted) != drift.MaxObjects || len(data) > drift.MaxObjects*4096 {
		t.Errorf("%d objects with %d bytes (%v)", len(accepted), len(data), err)
	}
	if o := accepted[0]; o.Cluster != "eu" || o.PutBack < 0 || o.OmittedFields < 0 {
		t.Errorf("accepted is cluster %s, put back %d, omitted %d", o.Cluster, o.PutBack, o.OmittedFields)
	}
}

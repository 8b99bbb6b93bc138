package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
)

type exportReport struct {
	Conditions []struct {
		Type    string `json:"type"`
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"conditions"`
}

// exportConditions are the conditions of a ServiceExport, each with its status when all is well. A cluster where it is not
// counts for all.
var exportConditions = []struct{ kind, well string }{{"Valid", "True"}, {"Ready", "True"}, {"Conflict", "False"}}

// ServiceExport tells on the hub's export how its copies fare: as in the first cluster where something is wrong.
func (a Aggregation) ServiceExport(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	list, err := reports[exportReport](items)
	if err != nil {
		return nil, err
	}
	var verdicts []verdict
	var drop []string
	for _, wanted := range exportConditions {
		if v, known := exportVerdict(list, wanted.kind, wanted.well); known {
			verdicts = append(verdicts, v)
		} else {
			drop = append(drop, wanted.kind)
		}
	}
	status := statusCopy(template)
	a.setConditions(template, status, verdicts, drop...)
	if len(status) == 0 {
		return template, nil
	}
	return interpret.WithStatus(template, status), nil
}

// exportVerdict is one condition of all copies. It is not known while no cluster has one.
func exportVerdict(list []report[exportReport], kind, well string) (verdict, bool) {
	result, found := verdict{kind: kind}, false
	var clusters []string
	for i := range list {
		for _, c := range list[i].status.Conditions {
			if c.Type != kind {
				continue
			}
			clusters = append(clusters, list[i].cluster)
			if !found || result.status == well && c.Status != well {
				result.status, result.reason, result.message, found = c.Status, c.Reason, fmt.Sprintf("Cluster %s: %s", list[i].cluster, c.Message), true
			}
		}
	}
	if found && result.status == well {
		slices.Sort(clusters)
		result.message = "In all clusters that tell: " + strings.Join(clusters, ", ")
	}
	return result, found
}

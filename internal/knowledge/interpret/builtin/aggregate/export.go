package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
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

// exportConditions are the conditions of a ServiceExport, each with its good status. One cluster with another status decides.
var exportConditions = []struct{ kind, good string }{{"Valid", "True"}, {"Ready", "True"}, {"Conflict", "False"}}

// ServiceExport takes each condition of the first cluster where it is not good.
func (a Aggregation) ServiceExport(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	list := reportsOf[exportReport](items)
	var verdicts []verdict
	for _, wanted := range exportConditions {
		verdicts = append(verdicts, exportVerdict(list, wanted.kind, wanted.good))
	}
	status := statusCopy(template)
	a.setConditions(template, status, verdicts...)
	if len(status) == 0 {
		return template, nil
	}
	return interpret.WithStatus(template, status), nil
}

// exportVerdict is one condition of all copies. It has no status while no cluster has one.
func exportVerdict(list []report[exportReport], kind, good string) verdict {
	result, found := verdict{kind: kind}, false
	var clusters []string
	for i := range list {
		for _, c := range list[i].status.Conditions {
			if c.Type != kind {
				continue
			}
			clusters = append(clusters, list[i].cluster)
			if !found || result.status == good && c.Status != good {
				result.status, result.reason, result.message, found = c.Status, bounds.Cut(c.Reason, bounds.MaxReasonBytes), fmt.Sprintf("Cluster %s: %s", list[i].cluster, bounds.Cut(c.Message, bounds.MessageBytes)), true
			}
		}
	}
	if result.status == good {
		slices.Sort(clusters)
		result.message = "In all clusters that report it: " + strings.Join(clusters, ", ")
	}
	return result
}

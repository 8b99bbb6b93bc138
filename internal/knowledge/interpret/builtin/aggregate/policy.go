package aggregate

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/reports"
)

type budgetReport struct {
	CurrentHealthy     int64                  `json:"currentHealthy"`
	DesiredHealthy     int64                  `json:"desiredHealthy"`
	ExpectedPods       int64                  `json:"expectedPods"`
	DisruptionsAllowed int64                  `json:"disruptionsAllowed"`
	DisruptedPods      map[string]metav1.Time `json:"disruptedPods"`
}

// Budget adds up disruption budgets; pods of different clusters may have the same name, so that of the cluster goes in front.
func (a Aggregation) Budget(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	if untouched(template, items) {
		return template, nil
	}
	list := reportsOf[budgetReport](items)
	sum := budgetReport{}
	disrupted := map[string]any{}
	for i := range list {
		s := &list[i].status
		sum.CurrentHealthy = reports.Sum(sum.CurrentHealthy, s.CurrentHealthy)
		sum.DesiredHealthy = reports.Sum(sum.DesiredHealthy, s.DesiredHealthy)
		sum.ExpectedPods = reports.Sum(sum.ExpectedPods, s.ExpectedPods)
		sum.DisruptionsAllowed = reports.Sum(sum.DisruptionsAllowed, s.DisruptionsAllowed)
		pods := slices.Sorted(maps.Keys(s.DisruptedPods))
		for _, pod := range pods[:min(len(pods), bounds.MaxDisruptedPods)] {
			since := s.DisruptedPods[pod]
			disrupted[list[i].cluster+"/"+bounds.Cut(pod, bounds.NameBytes)] = since.ToUnstructured()
		}
	}
	status := statusCopy(template)
	status["currentHealthy"], status["desiredHealthy"] = sum.CurrentHealthy, sum.DesiredHealthy
	status["expectedPods"], status["disruptionsAllowed"] = sum.ExpectedPods, sum.DisruptionsAllowed
	delete(status, "disruptedPods")
	if len(disrupted) > 0 {
		status["disruptedPods"] = disrupted
	}
	a.setConditions(template, status, currency(list))
	return interpret.WithStatus(template, status), nil
}

type autoscalerReport struct {
	CurrentReplicas int64 `json:"currentReplicas"`
	DesiredReplicas int64 `json:"desiredReplicas"`
}

// Autoscaler adds up the replicas; what each member measures stays with it.
func (a Aggregation) Autoscaler(_ context.Context, template *unstructured.Unstructured, items []workv1alpha2.AggregatedStatusItem) (*unstructured.Unstructured, error) {
	list := reportsOf[autoscalerReport](items)
	sum := autoscalerReport{}
	for i := range list {
		sum.CurrentReplicas = reports.Sum(sum.CurrentReplicas, list[i].status.CurrentReplicas)
		sum.DesiredReplicas = reports.Sum(sum.DesiredReplicas, list[i].status.DesiredReplicas)
	}
	status := statusCopy(template)
	setCounter(status, "currentReplicas", sum.CurrentReplicas)
	status["desiredReplicas"] = sum.DesiredReplicas
	if template.GetAPIVersion() == "autoscaling/v2" {
		a.setConditions(template, status, currency(list))
	}
	return interpret.WithStatus(template, status), nil
}

// setCounter writes a counter that an API server leaves out when it is zero.
func setCounter(status map[string]any, name string, value int64) {
	if value == 0 {
		delete(status, name)
		return
	}
	status[name] = value
}

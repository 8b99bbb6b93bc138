package builtin_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret"
	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin"
)

func TestWhatRanToItsEnd(t *testing.T) {
	chain := interpret.Chain(builtin.New(clocktesting.NewFakePassiveClock(time.Time{})))
	for name, test := range map[string]struct {
		object string
		want   bool
	}{
		"JobRunning":     {`{apiVersion: batch/v1, kind: Job, status: {active: 1, conditions: [{type: SuccessCriteriaMet, status: "True"}]}}`, false},
		"JobComplete":    {`{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: "True"}]}}`, true},
		"JobFailed":      {`{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: "True"}]}}`, true},
		"PodSucceeded":   {`{apiVersion: v1, kind: Pod, spec: {restartPolicy: Never}, status: {phase: Succeeded}}`, true},
		"PodEvicted":     {`{apiVersion: v1, kind: Pod, spec: {restartPolicy: Always}, status: {phase: Failed}}`, false},
		"PodRunning":     {`{apiVersion: v1, kind: Pod, spec: {restartPolicy: OnFailure}, status: {phase: Running}}`, false},
		"Deployment":     {`{apiVersion: apps/v1, kind: Deployment, status: {conditions: [{type: Complete, status: "True"}]}}`, false},
		"NotInterpreted": {`{apiVersion: example.io/v1, kind: Task, status: {phase: Succeeded}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.object), &obj.Object); err != nil {
				t.Fatal(err)
			}
			if got, err := chain.Finished(t.Context(), obj); got != test.want || err != nil {
				t.Errorf("it ran to its end: %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

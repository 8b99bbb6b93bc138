package thirdparty_test

import "testing"

func TestWhatRanToItsEnd(t *testing.T) {
	const succeeded, running = `{status: {conditions: [{type: Succeeded, status: "True"}]}}`, `{status: {conditions: [{type: Succeeded, status: Unknown}]}}`
	const failed, restarting = `{status: {conditions: [{type: Failed, status: "True"}]}}`, `{status: {conditions: [{type: Restarting, status: "True"}]}}`
	chain := interpreter(t)
	for kind, test := range map[string]struct{ ended, running []string }{
		"argoproj.io/v1alpha1/Workflow":        {[]string{`{status: {phase: Succeeded}}`, `{status: {phase: Failed}}`, `{status: {phase: Error}}`}, []string{`{}`, `{status: {phase: Running}}`}},
		"batch.volcano.sh/v1alpha1/Job":        {[]string{`{status: {state: {phase: Completed}}}`, `{status: {state: {phase: Terminated}}}`}, []string{`{}`, `{status: {state: {phase: Completing}}}`, `{status: {state: {phase: Aborted}}}`}},
		"jobset.x-k8s.io/v1alpha2/JobSet":      {[]string{`{status: {conditions: [{type: Completed, status: "True"}]}}`, failed}, []string{`{}`, `{status: {restarts: 1}}`}},
		"kubeflow.org/v1/MPIJob":               {[]string{succeeded, failed}, []string{`{}`, restarting}},
		"kubeflow.org/v1/PyTorchJob":           {[]string{succeeded, failed}, []string{`{}`, restarting}},
		"kubeflow.org/v1/TFJob":                {[]string{succeeded, failed}, []string{`{}`, restarting}},
		"kubeflow.org/v2beta1/MPIJob":          {[]string{succeeded, failed}, []string{`{}`, restarting}},
		"ray.io/v1/RayJob":                     {[]string{`{status: {jobDeploymentStatus: Complete}}`, `{status: {jobDeploymentStatus: Failed}}`}, []string{`{}`, `{status: {jobDeploymentStatus: Retrying, jobStatus: FAILED}}`}},
		"ray.io/v1/RayCluster":                 {nil, []string{`{status: {state: ready}}`}},
		"apps.kruise.io/v1alpha1/CloneSet":     {nil, []string{`{status: {phase: completed}}`}},
		"apps.kruise.io/v1alpha1/BroadcastJob": {[]string{`{status: {phase: completed}}`, `{status: {phase: failed}}`}, []string{`{}`, `{status: {phase: running}}`}},
		"sparkoperator.k8s.io/v1beta2/SparkApplication": {[]string{`{status: {applicationState: {state: COMPLETED}}}`, `{status: {applicationState: {state: FAILED}}}`}, []string{`{}`,
			`{status: {applicationState: {state: PENDING_RERUN}}}`, `{status: {applicationState: {state: SUBMISSION_FAILED}}}`}},
		"tekton.dev/v1/PipelineRun":      {[]string{succeeded, `{status: {conditions: [{type: Succeeded, status: "False"}]}}`}, []string{`{}`, running}},
		"tekton.dev/v1/TaskRun":          {[]string{succeeded}, []string{`{}`, running}},
		"tekton.dev/v1beta1/PipelineRun": {[]string{succeeded}, []string{`{}`, running}},
		"tekton.dev/v1beta1/TaskRun":     {[]string{succeeded}, []string{`{}`, running}},
	} {
		t.Run(kind, func(t *testing.T) {
			for want, objects := range map[bool][]string{true: test.ended, false: test.running} {
				for _, text := range objects {
					if got, err := chain.Finished(t.Context(), object(t, kind, text)); got != want || err != nil {
						t.Errorf("%s ran to its end: %v, %v, want %v", text, got, err, want)
					}
				}
			}
		})
	}
}

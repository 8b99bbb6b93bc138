package retain_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/flagship-k8s/flagship/internal/knowledge/interpret/builtin/retain"
)

// TestEachDroppedFieldIsActedOn lists every field that a copy does not have though its template does, with what acts on it instead. A rule that
// drops another field needs a line here.
func TestEachDroppedFieldIsActedOn(t *testing.T) {
	type rule = func(obj, template *unstructured.Unstructured)
	for name, test := range map[string]struct {
		prune  rule
		object string
		path   string
		acts   string
	}{
		"Status":            {retain.PruneServerSet, `{status: {a: 1}}`, "status", "the member reports its own"},
		"CreationTimestamp": {retain.PruneServerSet, `{metadata: {creationTimestamp: x}}`, "metadata.creationTimestamp", "the member sets its own"},
		"DeletionTimestamp": {retain.PruneServerSet, `{metadata: {deletionTimestamp: x}}`, "metadata.deletionTimestamp", "render deletes the Works of a template that goes"},
		"GracePeriod":       {retain.PruneServerSet, `{metadata: {deletionGracePeriodSeconds: 1}}`, "metadata.deletionGracePeriodSeconds", "the member sets its own"},
		"Generation":        {retain.PruneServerSet, `{metadata: {generation: 1}}`, "metadata.generation", "carried as an annotation"},
		"ManagedFields":     {retain.PruneServerSet, `{metadata: {managedFields: []}}`, "metadata.managedFields", "the member sets its own"},
		"ResourceVersion":   {retain.PruneServerSet, `{metadata: {resourceVersion: x}}`, "metadata.resourceVersion", "the member sets its own"},
		"SelfLink":          {retain.PruneServerSet, `{metadata: {selfLink: x}}`, "metadata.selfLink", "nothing reads it"},
		"UID":               {retain.PruneServerSet, `{metadata: {uid: x}}`, "metadata.uid", "carried as an annotation"},
		"OwnerReferences":   {retain.PruneServerSet, `{metadata: {ownerReferences: []}}`, "metadata.ownerReferences", "the garbage collector of the control plane"},
		"Finalizers":        {retain.PruneServerSet, `{metadata: {finalizers: []}}`, "metadata.finalizers", "the controllers of the control plane that set them"},
		"JobTTL":            {retain.PruneJob, `{spec: {ttlSecondsAfterFinished: 1}}`, "spec.ttlSecondsAfterFinished", "features/jobttl"},
		"JobSelector":       {retain.PruneJob, `{spec: {selector: {matchLabels: {controller-uid: x}}}}`, "spec.selector", "the member generates its own"},
		"JobLabels":         {retain.PruneJob, `{spec: {template: {metadata: {labels: {job-name: x}}}}}`, "spec.template.metadata.labels", "the member generates its own"},
		"JobOwnLabels":      {retain.PruneJob, `{metadata: {labels: {batch.kubernetes.io/controller-uid: x}}}`, "metadata.labels", "they are those of the pod template by default"},
		"DeploymentRevision": {retain.PruneDeployment, `{metadata: {annotations: {deployment.kubernetes.io/revision: x}}}`, "metadata.annotations",
			"the controller in the member counts its own"},
		"ServiceIP":       {retain.PruneService, `{spec: {clusterIP: x}}`, "spec.clusterIP", "the member allocates its own; admission warns of one that a user chose"},
		"ServiceIPs":      {retain.PruneService, `{spec: {clusterIPs: [x]}}`, "spec.clusterIPs", "the member allocates its own"},
		"ServiceFamilies": {retain.PruneService, `{spec: {ipFamilies: [x]}}`, "spec.ipFamilies", "carried if a user set it"},
		"ServicePolicy":   {retain.PruneService, `{spec: {ipFamilyPolicy: x}}`, "spec.ipFamilyPolicy", "carried if a user set it"},
		"ServiceHealthCheck": {retain.PruneService, `{spec: {healthCheckNodePort: 1}}`, "spec.healthCheckNodePort",
			"carried if a user set it or the Service has one"},
		"AccountSecrets": {retain.PruneServiceAccount, `{metadata: {name: a}, secrets: [{name: a-token-x}]}`, "secrets", "the member makes its own"},
		"TokenData":      {retain.PruneSecret, `{type: kubernetes.io/service-account-token, data: {token: x}}`, "data", "the member signs its own"},
		"TokenText":      {retain.PruneSecret, `{type: kubernetes.io/service-account-token, stringData: {token: x}}`, "stringData", "the member signs its own"},
		"TokenUID": {retain.PruneSecret, `{type: x, metadata: {annotations: {kubernetes.io/service-account.uid: x}}}`, "metadata.annotations",
			"the member writes its own"},
		"ReplicaSetCounts": {retain.PruneReplicaSet, `{metadata: {annotations: {deployment.kubernetes.io/desired-replicas: x}}}`, "metadata.annotations",
			"the controller in the member writes its own"},
		"DaemonSetCounter": {retain.PruneDaemonSet, `{metadata: {annotations: {deprecated.daemonset.template.generation: x}}}`, "metadata.annotations",
			"the member counts its own"},
		"AutoscalerStatus": {retain.PruneAutoscaler, `{metadata: {annotations: {autoscaling.alpha.kubernetes.io/current-metrics: x}}}`, "metadata.annotations",
			"it is a status: the member reports its own"},
		"AggregatedRules": {retain.PruneClusterRole, `{aggregationRule: {clusterRoleSelectors: []}, rules: [{}]}`, "rules",
			"the controller in the member aggregates its own"},
		"WebhookAuthority": {retain.PruneAuthority, `{metadata: {annotations: {cert-manager.io/inject-ca-from: a/b}}, spec: {conversion: {webhook: {clientConfig: {caBundle: x}}}}}`,
			"spec.conversion.webhook.clientConfig.caBundle", "the injector in the member writes its own"},
		"ServiceAuthority": {retain.PruneAuthority, `{metadata: {annotations: {cert-manager.io/inject-ca-from: a/b}}, spec: {caBundle: x}}`,
			"spec.caBundle", "the injector in the member writes its own"},
		"TrustBundle": {retain.PruneTrustBundle, `{metadata: {labels: {config.openshift.io/inject-trusted-cabundle: "true"}}, data: {ca-bundle.crt: x}}`,
			"data", "the injector in the member writes its own"},
		"ClaimVolume": {retain.PruneClaim, `{metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {volumeName: x}}`, "spec.volumeName",
			"the controller in the member binds its own; one that a user chose is carried"},
		"ClaimBound": {retain.PruneClaim, `{metadata: {annotations: {pv.kubernetes.io/bind-completed: "yes"}}}`, "metadata.annotations", "the controller in the member binds its own"},
		"VolumeClaim": {retain.PruneVolume, `{metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {claimRef: {name: x}}}`, "spec.claimRef",
			"the controller in the member binds its own; one that a user chose is carried"},
		"VolumeClaimUID": {retain.PruneVolume, `{spec: {claimRef: {name: x, uid: x}}}`, "spec.claimRef.uid", "the claim in the member has its own"},
		"ClaimNode":      {retain.PruneClaim, `{metadata: {annotations: {volume.kubernetes.io/selected-node: x}}}`, "metadata.annotations", "the scheduler in the member chooses"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.object), &obj.Object); err != nil {
				t.Fatal(err)
			}
			path := strings.Split(test.path, ".")
			if _, found, _ := unstructured.NestedFieldNoCopy(obj.Object, path...); !found || test.acts == "" {
				t.Fatalf("the template has no %s, or nothing acts on it", test.path)
			}
			test.prune(obj, obj.DeepCopy())
			if value, found, _ := unstructured.NestedFieldNoCopy(obj.Object, path...); found {
				t.Errorf("%s is carried: %v", test.path, value)
			}
		})
	}
}

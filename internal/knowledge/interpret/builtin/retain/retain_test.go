package retain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: object}
}

// TestRetain: what the member decided is in the result, what the template says of other fields stays, and neither object is changed.
func TestRetain(t *testing.T) {
	type rule = func(desired, observed *unstructured.Unstructured) ([]kept, error)
	for name, tc := range map[string]struct {
		rule                    rule
		desired, observed, want string
	}{
		"addresses of a Service": {Service, `{spec: {ports: [{port: 80}]}}`, `{spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], healthCheckNodePort: 30000, ports: [{port: 81}]}}`,
			`{spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], healthCheckNodePort: 30000, ports: [{port: 80}]}}`},
		"replicas without the label": {Replicas, `{spec: {replicas: 2}}`, `{spec: {replicas: 7}}`, `{spec: {replicas: 2}}`},
		"replicas with the label": {Replicas, `{metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "true"}}, spec: {replicas: 2}}`, `{spec: {replicas: 7}}`,
			`{metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: "true"}}, spec: {replicas: 7}}`},
		"a generated selector of a Job": {Job, `{spec: {template: {metadata: {labels: {app: x}}}}}`,
			`{spec: {selector: {matchLabels: {uid: a}}, template: {metadata: {labels: {app: x, uid: a}}}}}`,
			`{spec: {selector: {matchLabels: {uid: a}}, template: {metadata: {labels: {app: x, uid: a}}}}}`},
		"a manual selector of a Job": {Job, `{spec: {manualSelector: true, selector: {matchLabels: {a: b}}}}`, `{spec: {selector: {matchLabels: {uid: a}}}}`,
			`{spec: {manualSelector: true, selector: {matchLabels: {a: b}}}}`},
		"the volume of a claim": {Claim, `{spec: {}}`, `{spec: {volumeName: v}}`, `{spec: {volumeName: v}}`},
		"the claim of a volume": {Volume, `{spec: {claimRef: {name: template}}}`, `{spec: {claimRef: {name: c, uid: u}}}`, `{spec: {claimRef: {name: c, uid: u}}}`},
		"a token": {Secret, `{type: kubernetes.io/service-account-token, metadata: {annotations: {a: b}}}`,
			`{type: kubernetes.io/service-account-token, data: {token: eA==}, metadata: {annotations: {kubernetes.io/service-account.uid: u}}}`,
			`{type: kubernetes.io/service-account-token, data: {token: eA==}, metadata: {annotations: {a: b, kubernetes.io/service-account.uid: u}}}`},
		"other Secrets": {Secret, `{type: Opaque, data: {a: eA==}}`, `{type: Opaque, data: {a: eQ==}}`, `{type: Opaque, data: {a: eA==}}`},
		"references of a ServiceAccount": {ServiceAccount, `{secrets: [{name: mine}]}`, `{secrets: [{name: token-x}, {name: mine}], imagePullSecrets: [{name: pull}]}`,
			`{secrets: [{name: mine}, {name: token-x}], imagePullSecrets: [{name: pull}]}`},
		"a Pod that runs": {Pod, `{spec: {containers: [{name: a, image: x}, {name: b}]}}`,
			`{spec: {nodeName: n, serviceAccountName: default, volumes: [{name: token}], containers: [{name: a, image: y, volumeMounts: [{name: token, mountPath: /t}]}]}}`,
			`{spec: {nodeName: n, serviceAccountName: default, volumes: [{name: token}], containers: [{name: a, image: x, volumeMounts: [{name: token, mountPath: /t}]}, {name: b}]}}`},
		"nothing": {Service, `{spec: {clusterIP: None}}`, `{spec: {}}`, `{spec: {clusterIP: None}}`},
	} {
		t.Run(name, func(t *testing.T) {
			desired, observed := parse(t, tc.desired), parse(t, tc.observed)
			got, err := Retain(tc.rule)(t.Context(), desired, observed)
			if err != nil {
				t.Fatal(err)
			}
			for what, objects := range map[string][2]*unstructured.Unstructured{
				"the result": {parse(t, tc.want), got}, "the desired object": {parse(t, tc.desired), desired}, "the member's object": {parse(t, tc.observed), observed},
			} {
				if diff := cmp.Diff(objects[0].Object, objects[1].Object); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
	if _, err := Retain(Service)(t.Context(), parse(t, `{spec: {}}`), parse(t, `{spec: text}`)); err == nil {
		t.Error("a spec of the member that is no object is no error")
	}
}

// TestPrune: what an API server or controller of the control plane set does not go to members, what a user set does.
func TestPrune(t *testing.T) {
	nothing := func(_, _ *unstructured.Unstructured) {}
	for name, tc := range map[string]struct {
		rule      func(obj, template *unstructured.Unstructured)
		obj, want string
	}{
		"any kind": {nothing, `{metadata: {name: x, labels: {a: b}, uid: u, resourceVersion: "1", generation: 2, creationTimestamp: t, ownerReferences: [{name: o}], finalizers: [f], managedFields: []}, status: {a: b}}`,
			`{metadata: {name: x, labels: {a: b}}}`},
		"a Deployment": {PruneDeployment, `{metadata: {annotations: {deployment.kubernetes.io/revision: "1", a: b}}}`, `{metadata: {annotations: {a: b}}}`},
		"a Job": {PruneJob, `{metadata: {}, spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {job-name: j, app: a}}}}}`,
			`{metadata: {}, spec: {template: {metadata: {labels: {app: a}}}}}`},
		"a Job with a selector of its own": {PruneJob, `{metadata: {}, spec: {manualSelector: true, selector: {matchLabels: {controller-uid: u}}}}`,
			`{metadata: {}, spec: {manualSelector: true, selector: {matchLabels: {controller-uid: u}}}}`},
		"a Service": {PruneService, `{metadata: {}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ports: [{port: 80, nodePort: 30000}]}}`,
			`{metadata: {}, spec: {ports: [{port: 80}]}}`},
		"node ports": {PruneService, `{metadata: {}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30000}]}}`, `{metadata: {}, spec: {type: NodePort, ports: [{port: 80, nodePort: 30000}]}}`},
		"ports of a load balancer": {PruneService, `{metadata: {}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001, ports: [{port: 80, nodePort: 30000}]}}`,
			`{metadata: {}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30001, ports: [{port: 80, nodePort: 30000}]}}`},
		"a load balancer without node ports": {PruneService, `{metadata: {}, spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, externalTrafficPolicy: Cluster, healthCheckNodePort: 30001, ports: [{port: 80, nodePort: 30000}]}}`,
			`{metadata: {}, spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, externalTrafficPolicy: Cluster, ports: [{port: 80}]}}`},
		"a headless Service": {PruneService, `{metadata: {}, spec: {clusterIP: None, clusterIPs: [None]}}`, `{metadata: {}, spec: {clusterIP: None, clusterIPs: [None]}}`},
		"fields that a user set": {PruneService, `{metadata: {managedFields: [{manager: kubectl, fieldsV1: {"f:spec": {"f:ipFamilies": {}, "f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:nodePort": {}}}}}}]}, spec: {ipFamilies: [IPv4], ports: [{port: 80, nodePort: 30000}, {port: 81, nodePort: 30001}]}}`,
			`{metadata: {}, spec: {ipFamilies: [IPv4], ports: [{port: 80, nodePort: 30000}, {port: 81}]}}`},
		"a ServiceAccount": {PruneServiceAccount, `{metadata: {name: sa}, secrets: [{name: sa-token-x}, {name: mine}]}`, `{metadata: {name: sa}, secrets: [{name: mine}]}`},
		"a token": {PruneSecret, `{metadata: {annotations: {kubernetes.io/service-account.uid: u, kubernetes.io/service-account.name: sa}}, type: kubernetes.io/service-account-token, data: {token: eA==}}`,
			`{metadata: {annotations: {kubernetes.io/service-account.name: sa}}, type: kubernetes.io/service-account-token}`},
		"a token of another type": {PruneSecret, `{metadata: {annotations: {kubernetes.io/service-account.uid: u}}, type: Opaque, data: {token: eA==}, stringData: {a: b}}`,
			`{metadata: {}, type: Opaque}`},
		"another Secret": {PruneSecret, `{metadata: {}, type: Opaque, data: {a: eA==}}`, `{metadata: {}, type: Opaque, data: {a: eA==}}`},
		"a role that aggregates others": {PruneClusterRole, `{metadata: {}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}, rules: [{verbs: [get]}]}`,
			`{metadata: {}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}}`},
		"a role of its own": {PruneClusterRole, `{metadata: {}, rules: [{verbs: [get]}]}`, `{metadata: {}, rules: [{verbs: [get]}]}`},
		"webhooks that get an authority": {PruneAuthority, `{metadata: {annotations: {cert-manager.io/inject-ca-from: a/b}}, webhooks: [{name: w, clientConfig: {caBundle: eA==, url: u}}]}`,
			`{metadata: {annotations: {cert-manager.io/inject-ca-from: a/b}}, webhooks: [{name: w, clientConfig: {url: u}}]}`},
		"webhooks with an authority": {PruneAuthority, `{metadata: {}, webhooks: [{name: w, clientConfig: {caBundle: eA==}}]}`, `{metadata: {}, webhooks: [{name: w, clientConfig: {caBundle: eA==}}]}`},
		"a volume for a claim":       {PruneVolume, `{metadata: {}, spec: {claimRef: {name: c, namespace: n, uid: u, resourceVersion: "1"}}}`, `{metadata: {}, spec: {claimRef: {name: c, namespace: n}}}`},
		"a claim for a volume":       {PruneClaim, `{metadata: {}, spec: {volumeName: v}}`, `{metadata: {}, spec: {volumeName: v}}`},
		"a claim":                    {PruneClaim, `{metadata: {annotations: {volume.kubernetes.io/selected-node: n}}}`, `{metadata: {}}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj := parse(t, tc.obj)
			Prune(tc.rule)(obj, obj)
			if diff := cmp.Diff(parse(t, tc.want).Object, obj.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPruneOfWhatWasEdited: the template decides what is removed, so that no edit on the way to a member keeps anything.
func TestPruneOfWhatWasEdited(t *testing.T) {
	const token = `{metadata: {name: t, annotations: {kubernetes.io/service-account.uid: u}}, type: kubernetes.io/service-account-token, data: {token: eA==, ca.crt: eA==}}`
	for name, tc := range map[string]struct {
		rule                  func(obj, template *unstructured.Unstructured)
		template, obj, wanted string
	}{
		"server-set metadata that was put back": {func(_, _ *unstructured.Unstructured) {}, `{metadata: {name: x}}`,
			`{metadata: {name: x, uid: u, ownerReferences: [{name: o}], finalizers: [f], managedFields: [{}]}, status: {a: b}}`, `{metadata: {name: x}}`},
		"the type of a token": {PruneSecret, token, `{metadata: {name: t}, type: Opaque, data: {token: eA==}}`, `{metadata: {name: t}, type: Opaque}`},
		"the type and the data of a token": {PruneSecret, token, `{metadata: {name: t}, type: Opaque, data: {token: eA==, more: eA==}, stringData: {token: x}}`,
			`{metadata: {name: t}, type: Opaque}`},
		"another Secret that became a token": {PruneSecret, `{metadata: {name: t}, type: Opaque, data: {token: eA==}}`,
			`{metadata: {name: t, annotations: {kubernetes.io/service-account.name: sa}}, type: kubernetes.io/service-account-token, data: {token: eA==}}`,
			`{metadata: {name: t, annotations: {kubernetes.io/service-account.name: sa}}, type: kubernetes.io/service-account-token}`},
		"a selector that became manual": {PruneJob, `{metadata: {}, spec: {selector: {matchLabels: {controller-uid: u}}}}`,
			`{metadata: {}, spec: {manualSelector: true, ttlSecondsAfterFinished: 3, selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u, app: a}}}}}`,
			`{metadata: {}, spec: {manualSelector: true, template: {metadata: {labels: {app: a}}}}}`},
		"owned fields that were made up": {PruneService, `{metadata: {}, spec: {ipFamilies: [IPv4]}}`,
			`{metadata: {managedFields: [{manager: m, fieldsV1: {"f:spec": {"f:ipFamilies": {}}}}]}, spec: {ipFamilies: [IPv4]}}`, `{metadata: {}, spec: {}}`},
		"a Service that became headless": {PruneService, `{metadata: {}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}}`,
			`{metadata: {}, spec: {clusterIP: None, clusterIPs: [10.0.0.1]}}`, `{metadata: {}, spec: {clusterIP: None}}`},
		"a Service that became none": {PruneService, `{metadata: {}, spec: {clusterIP: None, clusterIPs: [None]}}`,
			`{metadata: {}, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}}`, `{metadata: {}, spec: {}}`},
		"annotations that were put back": {PruneDeployment, `{metadata: {}}`, `{metadata: {annotations: {deployment.kubernetes.io/revision: "9"}}}`, `{metadata: {}}`},
		"a node that was put back":       {PruneClaim, `{metadata: {}}`, `{metadata: {annotations: {volume.kubernetes.io/selected-node: n}}}`, `{metadata: {}}`},
		"a token's name that was put back": {PruneServiceAccount, `{metadata: {name: sa}}`, `{metadata: {name: sa}, secrets: [{name: sa-token-x}]}`,
			`{metadata: {name: sa}}`},
	} {
		t.Run(name, func(t *testing.T) {
			obj, template := parse(t, tc.obj), parse(t, tc.template)
			Prune(tc.rule)(obj, template)
			if diff := cmp.Diff(parse(t, tc.wanted).Object, obj.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(parse(t, tc.template).Object, template.Object); diff != "" {
				t.Errorf("the template was changed (-want +got):\n%s", diff)
			}
		})
	}
}

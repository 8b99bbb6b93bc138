package builtin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestPrune(t *testing.T) {
	ports := func(owner string) string {
		return "metadata: {managedFields: [{manager: kubectl, operation: Update, fieldsV1: {'f:spec': " + owner + "}}]}, "
	}
	tests := map[string]struct{ object, want string }{
		"server-set metadata and status": {
			"{apiVersion: example.com/v1, kind: Thing, status: {a: 1}, metadata: {name: x, labels: {a: b}, annotations: {c: d}, " +
				"creationTimestamp: x, deletionTimestamp: x, deletionGracePeriodSeconds: 1, generation: 3, managedFields: [], " +
				"resourceVersion: '5', selfLink: x, uid: u, ownerReferences: [{}], finalizers: [f]}}",
			"{apiVersion: example.com/v1, kind: Thing, metadata: {name: x, labels: {a: b}, annotations: {c: d}}}",
		},
		"revision annotations of a deployment": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {deployment.kubernetes.io/revision: '1', deployment.kubernetes.io/revision-history: '1', a: b}}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {annotations: {a: b}}}",
		},
		"no empty map is left": {
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, annotations: {deployment.kubernetes.io/revision: '1'}}}",
			"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}",
		},
		"generated selector of a job": {
			"{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 5, selector: {matchLabels: {controller-uid: u, batch.kubernetes.io/controller-uid: u}}, " +
				"template: {metadata: {labels: {app: x, controller-uid: u, job-name: n, batch.kubernetes.io/controller-uid: u, batch.kubernetes.io/job-name: n}}}}}",
			"{apiVersion: batch/v1, kind: Job, spec: {template: {metadata: {labels: {app: x}}}}}",
		},
		"manual selector of a job": {
			"{apiVersion: batch/v1, kind: Job, spec: {ttlSecondsAfterFinished: 5, manualSelector: true, selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}}}",
			"{apiVersion: batch/v1, kind: Job, spec: {manualSelector: true, selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {controller-uid: u}}}}}",
		},
		"allocated addresses and ports of a service": {
			"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], healthCheckNodePort: 30001, ports: [{port: 80, protocol: TCP, nodePort: 30002}]}}",
			"{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, protocol: TCP}]}}",
		},
		"node ports of a service": {
			"{apiVersion: v1, kind: Service, spec: {type: NodePort, ports: [{port: 80, protocol: TCP, nodePort: 30002}]}}",
			"{apiVersion: v1, kind: Service, spec: {type: NodePort, ports: [{port: 80, protocol: TCP, nodePort: 30002}]}}",
		},
		"families that the hub gave a service": {
			"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}",
			"{apiVersion: v1, kind: Service, spec: {}}",
		},
		"families that a user chose": {
			"{apiVersion: v1, kind: Service, " + ports("{'f:ipFamilies': {}, 'f:ipFamilyPolicy': {}}") + "spec: {ipFamilies: [IPv6], ipFamilyPolicy: SingleStack}}",
			"{apiVersion: v1, kind: Service, metadata: {}, spec: {ipFamilies: [IPv6], ipFamilyPolicy: SingleStack}}",
		},
		"a policy alone that a user chose": {
			"{apiVersion: v1, kind: Service, " + ports("{'f:ipFamilyPolicy': {}}") + "spec: {ipFamilies: [IPv4, IPv6], ipFamilyPolicy: RequireDualStack}}",
			"{apiVersion: v1, kind: Service, metadata: {}, spec: {ipFamilyPolicy: RequireDualStack}}",
		},
		"headless service": {
			"{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}",
			"{apiVersion: v1, kind: Service, spec: {clusterIP: None, clusterIPs: [None]}}",
		},
		"node port that a user chose": {
			"{apiVersion: v1, kind: Service, " + ports(`{'f:ports': {'k:{"port":80,"protocol":"TCP"}': {'f:nodePort': {}}, 'k:{"port":80,"protocol":"UDP"}': {'f:port': {}}}}`) +
				"spec: {ports: [{port: 80, protocol: TCP, nodePort: 30001}, {port: 80, protocol: UDP, nodePort: 30002}]}}",
			"{apiVersion: v1, kind: Service, metadata: {}, spec: {ports: [{port: 80, protocol: TCP, nodePort: 30001}, {port: 80, protocol: UDP}]}}",
		},
		"health check port that a user chose": {
			"{apiVersion: v1, kind: Service, " + ports("{'f:healthCheckNodePort': {}}") + "spec: {healthCheckNodePort: 30001}}",
			"{apiVersion: v1, kind: Service, metadata: {}, spec: {healthCheckNodePort: 30001}}",
		},
		"token secrets of a service account": {
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}, secrets: [{name: sa-token-abc}, {name: mine}]}",
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}, secrets: [{name: mine}]}",
		},
		"only token secrets of a service account": {
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}, secrets: [{name: sa-token-abc}]}",
			"{apiVersion: v1, kind: ServiceAccount, metadata: {name: sa}}",
		},
		"token secret": {
			"{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, data: {token: eA==}, metadata: {annotations: {kubernetes.io/service-account.uid: u, kubernetes.io/service-account.name: sa}}}",
			"{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: sa}}}",
		},
		"other secret": {
			"{apiVersion: v1, kind: Secret, type: Opaque, data: {token: eA==}}",
			"{apiVersion: v1, kind: Secret, type: Opaque, data: {token: eA==}}",
		},
		"selected node of a claim": {
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {volume.kubernetes.io/selected-node: n, a: b}}}",
			"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {annotations: {a: b}}}",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			obj := object(t, tc.object)
			i.Prune(obj, nil)
			if diff := cmp.Diff(fields(t, tc.want), obj.Object); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRetain(t *testing.T) {
	tests := map[string]struct{ kind, desired, observed, want string }{
		"replicas of a marked deployment": {
			"apps/v1/Deployment",
			"{metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: 'true'}}, spec: {replicas: 1, paused: true}}", "{spec: {replicas: 5}}",
			"{metadata: {labels: {resourcetemplate.karmada.io/retain-replicas: 'true'}}, spec: {replicas: 5, paused: true}}",
		},
		"replicas of any other deployment": {
			"apps/v1/Deployment", "{spec: {replicas: 1}}", "{spec: {replicas: 5}}", "{spec: {replicas: 1}}",
		},
		"generated selector of a job": {
			"batch/v1/Job", "{spec: {template: {metadata: {labels: {a: b}}}}}",
			"{spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {a: b, controller-uid: u}}}}}",
			"{spec: {selector: {matchLabels: {controller-uid: u}}, template: {metadata: {labels: {a: b, controller-uid: u}}}}}",
		},
		"manual selector of a job": {
			"batch/v1/Job", "{spec: {manualSelector: true, selector: {matchLabels: {a: b}}}}", "{spec: {selector: {matchLabels: {c: d}}}}",
			"{spec: {manualSelector: true, selector: {matchLabels: {a: b}}}}",
		},
		"what a pod got from its member": {
			"v1/Pod",
			"{spec: {containers: [{name: a, image: x}, {name: b}], initContainers: [{name: i}]}}",
			"{spec: {nodeName: n, serviceAccountName: default, volumes: [{name: token}], containers: [{name: a, image: y, volumeMounts: [{name: token}]}], initContainers: [{name: i, volumeMounts: [{name: token}]}]}}",
			"{spec: {nodeName: n, serviceAccountName: default, volumes: [{name: token}], containers: [{name: a, image: x, volumeMounts: [{name: token}]}, {name: b}], initContainers: [{name: i, volumeMounts: [{name: token}]}]}}",
		},
		"addresses of a service": {
			"v1/Service", "{spec: {type: LoadBalancer}}", "{spec: {clusterIP: 10.1.0.1, clusterIPs: [10.1.0.1], healthCheckNodePort: 30001, externalName: no}}",
			"{spec: {type: LoadBalancer, clusterIP: 10.1.0.1, clusterIPs: [10.1.0.1], healthCheckNodePort: 30001}}",
		},
		"volume of a claim": {
			"v1/PersistentVolumeClaim", "{spec: {a: 1}}", "{spec: {volumeName: v}}", "{spec: {a: 1, volumeName: v}}",
		},
		"claim of a volume": {
			"v1/PersistentVolume", "{spec: {a: 1}}", "{spec: {claimRef: {name: c}}}", "{spec: {a: 1, claimRef: {name: c}}}",
		},
		"references of a service account": {
			"v1/ServiceAccount", "{secrets: [{name: a}]}", "{secrets: [{name: b}, {name: a}], imagePullSecrets: [{name: p}]}",
			"{secrets: [{name: a}, {name: b}], imagePullSecrets: [{name: p}]}",
		},
		"data of a token secret": {
			"v1/Secret", "{type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: sa}}}",
			"{data: {token: eA==}, metadata: {annotations: {kubernetes.io/service-account.uid: u}}}",
			"{type: kubernetes.io/service-account-token, data: {token: eA==}, metadata: {annotations: {kubernetes.io/service-account.name: sa, kubernetes.io/service-account.uid: u}}}",
		},
		"data of any other secret": {"v1/Secret", "{data: {a: eA==}}", "{data: {a: eQ==}}", "{data: {a: eA==}}"},
		"nothing of other kinds":   {"v1/ConfigMap", "{data: {a: b}}", "{data: {a: c}}", "{data: {a: b}}"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			desired, observed := ofKind(t, tc.kind, tc.desired), ofKind(t, tc.kind, tc.observed)
			before, beforeObserved := desired.DeepCopy(), observed.DeepCopy()
			got, err := i.Retain(context.Background(), desired, observed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(ofKind(t, tc.kind, tc.want).Object, got.Object); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff([]any{before.Object, beforeObserved.Object}, []any{desired.Object, observed.Object}); diff != "" {
				t.Errorf("the arguments changed:\n%s", diff)
			}
		})
	}
}

func ofKind(t *testing.T, kind, text string) *unstructured.Unstructured {
	t.Helper()
	obj := object(t, text)
	for i := len(kind) - 1; i >= 0; i-- {
		if kind[i] == '/' {
			obj.SetAPIVersion(kind[:i])
			obj.SetKind(kind[i+1:])
			break
		}
	}
	return obj
}

func TestDependencies(t *testing.T) {
	const pod = `{serviceAccountName: runner, imagePullSecrets: [{name: pull}],
  initContainers: [{name: i, envFrom: [{configMapRef: {name: init}}]}],
  containers: [{name: a, env: [{name: A, valueFrom: {configMapKeyRef: {name: env, key: k}}}, {name: B, valueFrom: {secretKeyRef: {name: env, key: k}}}, {name: C, value: v}],
    envFrom: [{secretRef: {name: all}}]}],
  volumes: [{name: v1, configMap: {name: files}}, {name: v2, secret: {secretName: files}}, {name: data, persistentVolumeClaim: {claimName: data}},
    {name: v4, projected: {sources: [{configMap: {name: projected}}, {secret: {name: projected}}]}},
    {name: v5, csi: {driver: d, nodePublishSecretRef: {name: csi}}}, {name: v6, azureFile: {secretName: azure}}, {name: v7, configMap: {name: files}}]}`
	all := []string{
		"ConfigMap env", "ConfigMap files", "ConfigMap init", "ConfigMap projected", "PersistentVolumeClaim data",
		"Secret all", "Secret azure", "Secret csi", "Secret env", "Secret files", "Secret projected", "Secret pull", "ServiceAccount runner",
	}
	tests := map[string]struct {
		object string
		want   []string
	}{
		"deployment":  {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: " + pod + "}}}", all},
		"replica set": {"{apiVersion: apps/v1, kind: ReplicaSet, spec: {template: {spec: " + pod + "}}}", all},
		"daemon set":  {"{apiVersion: apps/v1, kind: DaemonSet, spec: {template: {spec: " + pod + "}}}", all},
		"job":         {"{apiVersion: batch/v1, kind: Job, spec: {template: {spec: " + pod + "}}}", all},
		"cron job":    {"{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: {spec: {template: {spec: " + pod + "}}}}}", all},
		"pod":         {"{apiVersion: v1, kind: Pod, spec: " + pod + "}", all},
		"stateful set makes claims of its own": {
			"{apiVersion: apps/v1, kind: StatefulSet, spec: {volumeClaimTemplates: [{metadata: {name: data}}], template: {spec: {containers: [], volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: x, persistentVolumeClaim: {claimName: other}}]}}}}",
			[]string{"PersistentVolumeClaim other"},
		},
		"every namespace has the default account": {"{apiVersion: v1, kind: Pod, spec: {serviceAccountName: default}}", nil},
		"ingress": {
			"{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {tls: [{secretName: b}, {secretName: a}, {hosts: [x]}, {secretName: b}]}}",
			[]string{"Secret a", "Secret b"},
		},
		"ingress with backends": {
			`{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {tls: [{secretName: cert}],
  defaultBackend: {service: {name: fallback, port: {number: 80}}},
  rules: [{host: a, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}, {path: /x, pathType: Prefix, backend: {service: {name: web, port: {name: x}}}}]}},
    {host: b}, {http: {paths: [{path: /files, pathType: Prefix, backend: {resource: {apiGroup: store.example.io, kind: Bucket, name: files}}}]}}]}}`,
			[]string{"Secret cert", "Service fallback", "Service web"},
		},
		"ingress with other resources as backends": {
			`{apiVersion: networking.k8s.io/v1, kind: Ingress, spec: {defaultBackend: {resource: {kind: Namespace, name: other}},
  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {resource: {kind: PersistentVolume, name: pv}}}, {path: /s, pathType: Prefix, backend: {resource: {kind: Secret, name: top}}}]}}]}}`,
			nil,
		},
		"service import": {
			"{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: web}}",
			[]string{"Service derived-web", "EndpointSlice kubernetes.io/service-name=derived-web"},
		},
		"service import of the newer version": {
			"{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {name: web}}",
			[]string{"Service derived-web", "EndpointSlice kubernetes.io/service-name=derived-web"},
		},
		"unknown kind": {"{apiVersion: example.com/v1, kind: Thing}", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			i := newInterpreter()
			obj := object(t, tc.object)
			obj.SetNamespace("shop")
			dependencies, err := i.Dependencies(context.Background(), obj)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range dependencies {
				if d.Namespace != "shop" {
					t.Errorf("%v is not in the object's namespace", d)
				}
				name := d.Name
				if d.LabelSelector != nil {
					for key, value := range d.LabelSelector.MatchLabels {
						name += fmt.Sprintf("%s=%s", key, value)
					}
				}
				got = append(got, d.Kind+" "+name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

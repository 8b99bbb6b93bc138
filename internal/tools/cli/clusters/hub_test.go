package clusters

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/spf13/cobra"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/features/restore"
	"github.com/flagship-k8s/flagship/internal/tools/cli"
	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

const clustersPath = "/apis/cluster.karmada.io/v1alpha1/clusters"

// hub is a control plane in memory with the Clusters given, to which KUBECONFIG leads.
func hub(t *testing.T, clusters ...*clusterv1alpha1.Cluster) *fleettest.ObjectServer {
	t.Helper()
	kind := clusterv1alpha1.SchemeGroupVersion.WithKind("Cluster")
	server := fleettest.StartObjectServer(t,
		fleettest.ServedKind{GroupVersionKind: kind, Resource: "clusters"},
		fleettest.ServedKind{GroupVersionKind: workv1alpha1.SchemeGroupVersion.WithKind("Work"), Resource: "works", Namespaced: true},
		fleettest.ServedKind{GroupVersionKind: workv1alpha2.GroupVersion.WithKind("ResourceBinding"), Resource: "resourcebindings", Namespaced: true},
		fleettest.ServedKind{GroupVersionKind: workv1alpha2.GroupVersion.WithKind("ClusterResourceBinding"), Resource: "clusterresourcebindings"},
	)
	for _, cluster := range clusters {
		server.Add(t, clustersPath, kind, cluster)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: server.Config.Host}
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub"}
	config.CurrentContext = "hub"
	file := filepath.Join(t.TempDir(), "hub.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	return server
}

func cluster(name string, conditions ...string) *clusterv1alpha1.Cluster {
	c := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, condition := range conditions {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: "Test"})
	}
	return c
}

// run runs the program with the commands of this package.
func run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	build := func(s cli.Streams) *cobra.Command {
		return cli.Root(s, &cobra.Command{Use: "flagship"}, Commands(s))
	}
	code = cli.Run(build, args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// stored is the Cluster on the control plane.
func stored(t *testing.T, server *fleettest.ObjectServer, name string) *clusterv1alpha1.Cluster {
	t.Helper()
	c := &clusterv1alpha1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(server.Object(clustersPath+"/"+name).Object, c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTaints(t *testing.T) {
	own := corev1.Taint{Key: "own", Value: "a", Effect: corev1.TaintEffectNoSchedule}
	cordoned := corev1.Taint{Key: clusterv1alpha1.TaintClusterUnscheduler, Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		args   string
		taints []corev1.Taint
		code   int
		out    string
		err    string
		want   []corev1.Taint
	}{
		"Cordon":         {"cordon m1", []corev1.Taint{own}, 0, "cluster m1 cordoned\n", "", []corev1.Taint{own, cordoned}},
		"CordonAgain":    {"cordon m1", []corev1.Taint{cordoned}, 0, "cluster m1 was cordoned already\n", "", []corev1.Taint{cordoned}},
		"Uncordon":       {"uncordon m1", []corev1.Taint{own, cordoned}, 0, "cluster m1 uncordoned\n", "", []corev1.Taint{own}},
		"CordonTwo":      {"cordon absent m1", nil, 1, "cluster m1 cordoned\n", `there is no cluster "absent"`, []corev1.Taint{cordoned}},
		"Taint":          {"taint m1 own=a:NoSchedule", nil, 0, "cluster m1 tainted\n", "", []corev1.Taint{own}},
		"TaintKubectl":   {"taint clusters m1 own=a:NoSchedule", nil, 0, "cluster m1 tainted\n", "", []corev1.Taint{own}},
		"OtherValue":     {"taint m1 own=b:NoSchedule", []corev1.Taint{own}, 1, "", "--overwrite changes it", []corev1.Taint{own}},
		"Overwrite":      {"taint m1 own=b:NoSchedule --overwrite", []corev1.Taint{own}, 0, "cluster m1 tainted\n", "", []corev1.Taint{{Key: "own", Value: "b", Effect: "NoSchedule"}}},
		"Remove":         {"taint m1 own-", []corev1.Taint{own, cordoned}, 0, "cluster m1 tainted\n", "", []corev1.Taint{cordoned}},
		"RemoveEffect":   {"taint m1 own:NoExecute-", []corev1.Taint{own}, 0, "cluster m1 was tainted already\n", "", []corev1.Taint{own}},
		"UnknownCluster": {"taint absent own=a:NoSchedule", nil, 1, "", `there is no cluster "absent"`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m1 := cluster("m1")
			m1.Spec.Taints = tc.taints
			server := hub(t, m1)
			code, out, errs := run(strings.Fields(tc.args)...)
			if code != tc.code || out != tc.out || !strings.Contains(errs, tc.err) || (tc.err == "") != (errs == "") {
				t.Errorf("code %d, output %q, errors %q; want %d, %q, %q", code, out, errs, tc.code, tc.out, tc.err)
			}
			got := stored(t, server, "m1").Spec.Taints
			if len(got) != len(tc.want) {
				t.Fatalf("taints are %v, want %v", got, tc.want)
			}
			for i := range got {
				if got[i].Key != tc.want[i].Key || got[i].Value != tc.want[i].Value || got[i].Effect != tc.want[i].Effect {
					t.Errorf("taints are %v, want %v", got, tc.want)
				}
			}
		})
	}
}

func TestWhatWaitsIsReleased(t *testing.T) {
	held, engaged := clusterv1alpha1.ClusterConditionDispatchingHeld, clusterv1alpha1.ClusterConditionBrakeEngaged
	const (
		resume  = clusterv1alpha1.ResumeDispatchingAnnotation
		release = clusterv1alpha1.BrakeReleasedUntilAnnotation
		keep    = clusterv1alpha1.BrakeKeepBeforeAnnotation
	)
	tests := map[string]struct {
		args string
		code int
		out  string
		err  string
		want map[string]string // annotations that are there afterwards, by cluster
	}{
		"Brake":       {"release-brake m1", 0, "the brake of cluster m1 is released\n", "", map[string]string{"m1": release}},
		"BrakeAll":    {"release-brake --all", 0, "the brake of cluster m2 is released\n", "", map[string]string{"m2": release}},
		"BrakeKeep":   {"release-brake m2 --keep-objects", 0, "the brake of cluster m2 is released\n", "", map[string]string{"m2": keep}},
		"BrakeAbsent": {"release-brake absent m2", 1, "the brake of cluster m2 is released\n", `reading cluster "absent"`, map[string]string{"m2": release}},
		"BrakeNone":   {"release-brake", 2, "", "either the names of clusters or --all", nil},
		"BrakeBoth":   {"release-brake m1 --all", 2, "", "either the names of clusters or --all", nil},
		"BrakeLong":   {"release-brake m1 --for 1000h", 2, "", "--for must be more than 0 and at most", nil},
		"BrakeNever":  {"release-brake m1 --for 0s", 2, "", "--for must be more than 0 and at most", nil},
		"Resume":      {"restore resume --cluster m2", 0, "writing to cluster m2 is resumed\n", "", map[string]string{"m2": resume}},
		"ResumeAll":   {"restore resume --all", 0, "writing to cluster m1 is resumed\n", "", map[string]string{"m1": resume}},
		"ResumeNone":  {"restore resume", 2, "", "either --cluster or --all", nil},
		"ResumeBoth":  {"restore resume --all --cluster m1", 2, "", "either --cluster or --all", nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := hub(t, cluster("m1", held), cluster("m2", engaged))
			code, out, errs := run(strings.Fields(tc.args)...)
			if code != tc.code || out != tc.out || !strings.Contains(errs, tc.err) || (tc.err == "") != (errs == "") {
				t.Errorf("code %d, output %q, errors %q; want %d, %q, %q", code, out, errs, tc.code, tc.out, tc.err)
			}
			for _, name := range []string{"m1", "m2"} {
				annotations := stored(t, server, name).Annotations
				if want := tc.want[name]; want == "" && len(annotations) > 0 || want != "" && (len(annotations) != 1 || annotations[want] == "") {
					t.Errorf("annotations of %s are %v, want %q only", name, annotations, want)
				}
			}
		})
	}
}

func TestReports(t *testing.T) {
	reports := []restore.Report{
		{Cluster: "m1", Held: true, Findings: []restore.Finding{
			{Class: "Orphan", Resource: "deployments.apps", Namespace: "shop", Name: "cart", Work: "cart-deployment"},
			{Class: "Orphan", Resource: "namespaces", Name: "shop", Work: "shop-namespace"},
		}},
		{Cluster: "m2", Held: true},
		{Cluster: "m3", Error: "connection refused"},
	}
	const failed = "error: cluster m3: connection refused\n"
	for command, path := range map[string]string{"orphans": restore.OrphansPath, "restore status": restore.StatusPath} {
		t.Run(command, func(t *testing.T) {
			server := hub(t)
			var asked []string
			server.Handle("GET "+path, func(w http.ResponseWriter, r *http.Request) {
				asked = r.URL.Query()["cluster"]
				fleettest.WriteJSON(w, http.StatusOK, reports)
			})
			code, out, errs := run(strings.Fields(command + " --cluster m1 --cluster m2,m3")...)
			want := "CLUSTER   HELD   CLASS    RESOURCE           NAMESPACE   NAME   WORK\n" +
				"m1        true   Orphan   deployments.apps   shop        cart   cart-deployment\n" +
				"m1        true   Orphan   namespaces         -           shop   shop-namespace\n" +
				"m2        true   -        -                  -           -      -\n"
			if code != 1 || out != want || errs != failed {
				t.Errorf("code %d, output\n%s\nerrors %q; want 1,\n%s\n%q: what is known is printed though one cluster failed", code, out, errs, want, failed)
			}
			if strings.Join(asked, " ") != "m1 m2 m3" {
				t.Errorf("the request is about %v", asked)
			}
			for format, decode := range map[string]func([]byte, any) error{
				"json": json.Unmarshal, "yaml": func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) },
			} {
				code, out, errs := run(strings.Fields(command + " -o " + format)...)
				var got []restore.Report
				if err := decode([]byte(out), &got); err != nil || code != 1 || errs != failed || len(got) != 3 || len(got[0].Findings) != 2 {
					t.Errorf("-o %s: code %d, errors %q, %v:\n%s", format, code, errs, err, out)
				}
			}
		})
	}
}

func TestReportsThatCannotBeRead(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"Forbidden": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "only operators may read this", http.StatusForbidden)
		}, "error: the control plane answers 403 Forbidden: only operators may read this\n"},
		"NoJSON": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "error: reading the answer: "},
	} {
		t.Run(name, func(t *testing.T) {
			server := hub(t)
			server.Handle("GET "+restore.OrphansPath, tc.answer)
			if code, out, errs := run("orphans"); code != 1 || out != "" || !strings.HasPrefix(errs, tc.want) {
				t.Errorf("code %d, output %q, errors %q; want 1, nothing and %q", code, out, errs, tc.want)
			}
		})
	}
	hub(t)
	if code, out, errs := run("orphans", "-o", "wide"); code != 2 || out != "" || !strings.Contains(errs, `--output "wide" is none of table, json, yaml`) {
		t.Errorf("an unknown format: code %d, output %q, errors %q", code, out, errs)
	}
}

func TestUnjoinShowsFirstWhatItDoes(t *testing.T) {
	manifest := func(namespace, name string) workv1alpha1.Manifest {
		raw := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"` + namespace + `","name":"` + name + `"}}`
		return workv1alpha1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}
	}
	server := hub(t, cluster("m1"))
	for name, preserve := range map[string]bool{"plain": false, "preserved": true} {
		work := &workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-m1", Name: name}}
		work.Spec.Workload.Manifests = []workv1alpha1.Manifest{manifest(name, "a"), manifest(name, "b")}
		work.Spec.PreserveResourcesOnDeletion = &preserve
		server.Add(t, "/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-m1/works", workv1alpha1.SchemeGroupVersion.WithKind("Work"), work)
	}
	const header = "NAMESPACE   KIND        APIVERSION   OBJECTS   ACTION\n"
	for args, want := range map[string]string{
		"--keep-objects":   header + "plain       ConfigMap   v1           2         keep\npreserved   ConfigMap   v1           2         keep\n",
		"--delete-objects": header + "plain       ConfigMap   v1           2         delete\npreserved   ConfigMap   v1           2         keep\n",
	} {
		if code, out, errs := run("unjoin", "m1", "--dry-run", args); code != 0 || out != want || errs != "" {
			t.Errorf("%s: code %d, errors %q, output\n%s\nwant\n%s", args, code, errs, out, want)
		}
	}
	if code, _, errs := run("unjoin", "absent", "--dry-run"); code != 1 || errs != "error: there is no cluster \"absent\"\n" {
		t.Errorf("an unknown cluster: code %d, errors %q", code, errs)
	}
	if code, out, errs := run("unjoin", "m1"); code != 1 || !strings.Contains(errs, "--keep-objects") || !strings.Contains(errs, "--delete-objects") {
		t.Errorf("unjoin without a choice: code %d, output %q, errors %q; want both flags named", code, out, errs)
	}
	if code, _, errs := run("unjoin", "m1", "--keep-objects", "--delete-objects"); code != 2 || !strings.Contains(errs, "keep-objects") {
		t.Errorf("both choices: code %d, errors %q; want 2", code, errs)
	}
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("what was refused or only shown wrote %v", writes)
	}
}

// TestMisuseHasItsOwnExitCode: scripts distinguish a command that failed from one that can never succeed.
func TestMisuseHasItsOwnExitCode(t *testing.T) {
	hub(t)
	for _, args := range []string{"orphans m1", "restore", "restore resmue", "restore status m1", "unknown", "cordon", "cordon --flag m1"} {
		if code, out, errs := run(strings.Fields(args)...); code != 2 || out != "" || !strings.HasPrefix(errs, "error: ") {
			t.Errorf("flagship %s: code %d, output %q, errors %q; want 2 and an error", args, code, out, errs)
		}
	}
	if code, out, _ := run(); code != 0 || !strings.Contains(out, "unjoin") {
		t.Errorf("without a command: code %d, output %q; want help", code, out)
	}
}

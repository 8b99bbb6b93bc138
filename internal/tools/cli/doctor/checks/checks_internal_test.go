package checks

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
)

var (
	now       = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "works"}, "", errors.New("no"))
)

// healthy is a control plane with the member m1, which has one object.
func healthy() Facts {
	web := Template{"apps/v1", "Deployment", "shop", "web"}
	old := now.Add(-time.Hour)
	m1 := clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	m1.Status.KubernetesVersion = "v1.34.2"
	meta.SetStatusCondition(&m1.Status.Conditions, clusterv1alpha1.Ready())
	return Facts{
		Now: now, Patience: 5 * time.Minute, BackupAge: 7 * time.Hour,
		Kubernetes:   Read[string]{Value: "v1.37.1"},
		HubTime:      Read[time.Time]{Value: now},
		Certificates: Read[[]Certificate]{Value: []Certificate{{"the serving certificate", now.Add(300 * 24 * time.Hour)}}},
		Metrics: Read[Metrics]{Value: Metrics{
			"flagship_storage_used_ratio":                    {{Value: 0.1}},
			"flagship_storage_full":                          {{Value: 0}},
			"flagship_storage_disk_free_bytes":               {{Value: 20 << 30}},
			"etcd_mvcc_db_total_size_in_bytes":               {{Value: 1 << 30}},
			"etcd_mvcc_db_total_size_in_use_in_bytes":        {{Value: 900 << 20}},
			"flagship_loop_longest_running_seconds":          {{Labels: map[string]string{"loop": "apply"}, Value: 1}},
			"flagship_credential_expiry_timestamp_seconds":   {credential(now.Add(40 * 24 * time.Hour))},
			"flagship_credential_renewal_timestamp_seconds":  {credential(now.Add(-time.Minute))},
			"flagship_storage_defragmentations_total":        {{Labels: map[string]string{"result": "failed"}, Value: 0}},
			"flagship_something_of_which_nothing_is_checked": {{Value: 1}},
		}},
		Clusters: Read[[]clusterv1alpha1.Cluster]{Value: []clusterv1alpha1.Cluster{m1}},
		Members:  map[string]Member{"m1": {}},
		Bindings: Read[[]Object]{Value: []Object{{Kind: "ResourceBinding", Namespace: "shop", Name: "web-deployment", Created: old, Template: web}}},
		Works:    Read[[]Object]{Value: []Object{{Kind: "Work", Namespace: "karmada-es-m1", Name: "web", Created: old, Binding: "shop/web-deployment"}}},
		Namespaces: Read[[]Object]{Value: []Object{
			{Kind: "Namespace", Name: "shop", Created: old}, {Kind: "Namespace", Name: "karmada-es-m1", Created: old},
		}},
		Templates: Read[map[Template]bool]{Value: map[Template]bool{web: true}},
		Orphans:   Read[[]Orphans]{Value: []Orphans{{Cluster: "m1"}}},
		Backups:   &Read[[]time.Time]{Value: []time.Time{now.Add(-time.Hour), now.Add(-9 * time.Hour)}},
	}
}

func credential(at time.Time) Sample {
	return Sample{Labels: map[string]string{"cluster": "m1", "use": "controller"}, Value: float64(at.Unix())}
}

func TestAHealthyControlPlane(t *testing.T) {
	results := Run(healthy())
	for _, r := range results {
		if r.Status != OK || r.Next != "" {
			t.Errorf("got %+v", r)
		}
	}
	if len(results) != 16 || Worst(results) != OK {
		t.Errorf("got %d results, the worst is %s", len(results), Worst(results))
	}
}

// TestAgentsThatAreWell: one minor version apart, of no release, or Karmada's, which report nothing.
func TestAgentsThatAreWell(t *testing.T) {
	for _, a := range []Agent{{}, {Version: "v0.9.4", Expires: now.Add(20 * 24 * time.Hour)}, {Version: "v0.8.0"}, {Version: "v0.10.0"}, {Version: "1a2b3c4-dirty"}} {
		f := healthy()
		f.Clusters.Value[0].Spec.SyncMode = clusterv1alpha1.Pull
		f.Agents.Value = map[string]Agent{"m1": a}
		f.Metrics.Value["flagship_build_info"] = []Sample{{Labels: map[string]string{"version": "v0.9.0"}, Value: 1}}
		if results := Agents(f); len(results) != 1 || results[0].Status != OK {
			t.Errorf("%+v: got %+v", a, results)
		}
	}
}

func TestWhatIsFound(t *testing.T) {
	condition := func(c metav1.Condition) func(*Facts) {
		return func(f *Facts) { meta.SetStatusCondition(&f.Clusters.Value[0].Status.Conditions, c) }
	}
	metric := func(name string, value float64) func(*Facts) {
		return func(f *Facts) { f.Metrics.Value[name][0].Value = value }
	}
	// agent adds the member m2, which has one, to a control plane of release 0.9.0.
	agent := func(a Agent) func(*Facts) {
		return func(f *Facts) {
			m2 := f.Clusters.Value[0].DeepCopy()
			m2.Name, m2.Spec.SyncMode = "m2", clusterv1alpha1.Pull
			f.Clusters.Value = append(f.Clusters.Value, *m2)
			f.Agents.Value = map[string]Agent{"m2": a}
			f.Metrics.Value["flagship_build_info"] = []Sample{{Labels: map[string]string{"version": "v0.9.0"}, Value: 1}}
		}
	}
	for name, tc := range map[string]struct {
		breaks func(*Facts)
		check  string
		status Status
		found  string
	}{
		"NoAnswer":         {func(f *Facts) { f.Ready.Err = errors.New("refused") }, "control-plane", Failure, "does not answer: refused"},
		"NotReady":         {func(f *Facts) { f.Ready.Value = []string{"storage failed"} }, "control-plane", Failure, "not ready: storage failed"},
		"StuckLoop":        {metric("flagship_loop_longest_running_seconds", 700), "loops", Failure, "a reconcile of apply has run for 11m"},
		"AlmostFull":       {metric("flagship_storage_used_ratio", 0.8), "storage", Warning, "80% of the quota"},
		"NearlyFull":       {metric("flagship_storage_used_ratio", 0.96), "storage", Failure, "96% of the quota"},
		"Full":             {metric("flagship_storage_full", 1), "storage", Failure, "takes only deletions"},
		"DiskLow":          {metric("flagship_storage_disk_free_bytes", 900<<20), "storage", Warning, "900Mi free"},
		"DiskOut":          {metric("flagship_storage_disk_free_bytes", 100<<20), "storage", Failure, "100Mi free"},
		"MostlyFree":       {metric("etcd_mvcc_db_total_size_in_use_in_bytes", 100<<20), "storage", Warning, "924Mi are free"},
		"Defragmentation":  {metric("flagship_storage_defragmentations_total", 2), "storage", Warning, "2 defragmentations failed"},
		"NoMetrics":        {func(f *Facts) { f.Metrics.Err = forbidden }, "storage", Unchecked, "metrics: forbidden"},
		"CertificateSoon":  {func(f *Facts) { f.Certificates.Value[0].Expires = now.Add(20 * 24 * time.Hour) }, "certificates", Warning, "expires in 20d"},
		"CertificateNow":   {func(f *Facts) { f.Certificates.Value[0].Expires = now.Add(24 * time.Hour) }, "certificates", Failure, "expires in 24h"},
		"CertificateEnded": {func(f *Facts) { f.Certificates.Value[0].Expires = now.Add(-time.Hour) }, "certificates", Failure, "has expired 60m ago"},
		"TokenEnded":       {metric("flagship_credential_expiry_timestamp_seconds", float64(now.Unix())), "credentials", Failure, "m1: the controller token has expired"},
		"TokenLate":        {metric("flagship_credential_renewal_timestamp_seconds", float64(now.Add(-2*time.Hour).Unix())), "credentials", Warning, "renewed 120m ago"},
		"AgentRefused":     {func(f *Facts) { f.Requests.Value = []Request{{"csr-1", "m2", now, true}} }, "agents", Warning, "m2: the certificate request of the agent was refused"},
		"AgentWaits":       {func(f *Facts) { f.Requests.Value = []Request{{"csr-1", "m2", now.Add(-time.Hour), false}} }, "agents", Warning, "waits for 60m"},
		"AgentEnded":       {agent(Agent{Expires: now.Add(-time.Hour)}), "agents", Failure, "m2: the certificate of the agent has expired 60m ago"},
		"AgentEnds":        {agent(Agent{Expires: now.Add(time.Hour)}), "agents", Warning, "m2: the certificate of the agent expires in 60m"},
		"AgentOld":         {agent(Agent{Version: "v0.7.3"}), "agents", Warning, "m2: its agent is 0.7.3 and the control plane is 0.9.0"},
		"AgentNew":         {agent(Agent{Version: "v1.0.0"}), "agents", Warning, "m2: its agent is 1.0.0"},
		"AgentsHidden":     {func(f *Facts) { f.Agents.Err = forbidden }, "agents", Unchecked, "leases of agents: forbidden"},
		"OwnClock":         {func(f *Facts) { f.HubTime.Value = now.Add(2 * time.Minute) }, "clocks", Warning, "this machine is 2m"},
		"MemberClock":      {condition(clusterv1alpha1.ClockDiffers("1h0m ahead of")), "clocks", Warning, "m1: the clock of the cluster is 1h0m ahead"},
		"MemberDead":       {condition(clusterv1alpha1.NotReady(clusterv1alpha1.ClusterNotReachableReason, "no route")), "members", Failure, "m1: ClusterNotReachable since"},
		"MemberNew":        {func(f *Facts) { f.Clusters.Value[0].Status.Conditions = nil }, "members", Warning, "not known yet"},
		"ProxyDead":        {func(f *Facts) { f.Members["m1"] = Member{Answer: errors.New("late")} }, "members", Warning, "does not answer through its proxy: late"},
		"ClustersHidden":   {func(f *Facts) { f.Clusters.Err = forbidden }, "members", Unchecked, "clusters: forbidden"},
		"Old":              {func(f *Facts) { f.Clusters.Value[0].Status.KubernetesVersion = "v1.29.9" }, "versions", Warning, "m1 runs Kubernetes 1.29.9, older"},
		"New":              {func(f *Facts) { f.Clusters.Value[0].Status.KubernetesVersion = "v1.38.0" }, "versions", Warning, "newer than 1.37.1"},
		"Odd":              {func(f *Facts) { f.Clusters.Value[0].Status.KubernetesVersion = "new" }, "versions", Unchecked, `its version is "new"`},
		"RightMissing":     {func(f *Facts) { f.Members["m1"] = Member{Denied: Read[[]string]{Value: []string{"patch services"}}} }, "permissions", Warning, "m1: the control plane may not patch services"},
		"RightsHidden":     {func(f *Facts) { f.Members["m1"] = Member{Answer: forbidden, Denied: Read[[]string]{Err: forbidden}} }, "permissions", Unchecked, "m1: forbidden"},
		"Brake":            {condition(clusterv1alpha1.BrakeEngaged(clusterv1alpha1.MemberShareExceededReason, "9 of 10")), "brakes", Warning, "m1: BrakeEngaged (MemberShareExceeded): 9 of 10"},
		"Restored":         {condition(clusterv1alpha1.DispatchingHeld(clusterv1alpha1.ControlPlaneRestoredReason, "wait")), "brakes", Warning, "m1: DispatchingHeld"},
		"Partial":          {condition(clusterv1alpha1.APIEnablementsPartial("one is broken")), "conditions", Warning, "Cluster m1: CompleteAPIEnablements (Partial)"},
		"Unscheduled": {func(f *Facts) {
			f.Bindings.Value[0].Conditions = []metav1.Condition{workv1alpha2.NotScheduledCondition(1, "NoClusterFit", "0/1")}
		}, "conditions", Warning, "ResourceBinding shop/web-deployment: Scheduled (NoClusterFit): 0/1"},
		"NotApplied": {func(f *Facts) {
			f.Works.Value[0].Conditions = []metav1.Condition{workv1alpha1.NotApplied(1, "invalid")}
		}, "conditions", Warning, "Work karmada-es-m1/web: Applied (AppliedFailed): invalid"},
		"WorksHidden":        {func(f *Facts) { f.Works.Err = forbidden }, "conditions", Unchecked, "Works: forbidden"},
		"Deleting":           {func(f *Facts) { w := &f.Works.Value[0]; w.Deleted, w.Finalizers = now.Add(-time.Hour), []string{"x/y"} }, "deleting", Warning, "Work karmada-es-m1/web: deleted 60m ago, held by x/y"},
		"WorkAlone":          {func(f *Facts) { f.Works.Value[0].Binding = "shop/gone" }, "orphaned-works", Warning, "its binding shop/gone does not exist"},
		"BindingAlone":       {func(f *Facts) { f.Templates.Value[f.Bindings.Value[0].Template] = false }, "orphaned-works", Warning, "its template Deployment web does not exist"},
		"NamespaceAlone":     {func(f *Facts) { f.Namespaces.Value[1].Name = "karmada-es-gone" }, "orphaned-works", Warning, "there is no Cluster gone"},
		"ObjectsAlone":       {func(f *Facts) { f.Orphans.Value[0].Count = 3 }, "orphaned-objects", Warning, "m1: 3 objects"},
		"ObjectsNotSearched": {func(f *Facts) { f.Orphans.Value[0].Err = "no connection" }, "orphaned-objects", Unchecked, "m1: no connection"},
		"BackupOld":          {func(f *Facts) { f.Backups.Value = f.Backups.Value[1:] }, "backups", Failure, "the newest backup is 9h old"},
		"NoBackup":           {func(f *Facts) { f.Backups.Value = nil }, "backups", Failure, "has no backup"},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			tc.breaks(&f)
			results := Run(f)
			found := 0
			for _, r := range results {
				if r.Check == tc.check && r.Status != OK {
					found++
					if r.Status != tc.status || !strings.Contains(r.Found, tc.found) {
						t.Errorf("got %+v, want %s and %q", r, tc.status, tc.found)
					}
				}
			}
			if found != 1 {
				t.Errorf("%d results of %s are not ok, want 1: %+v", found, tc.check, results)
			}
			if worst := Worst(results); (worst == Failure) != (tc.status == Failure) || worst == OK {
				t.Errorf("the worst is %s", worst)
			}
		})
	}
}

// What is new, or is being deleted since a moment, is no trouble.
func TestWhatNeedsAMoment(t *testing.T) {
	f := healthy()
	f.Works.Value[0].Binding, f.Works.Value[0].Created = "shop/gone", now.Add(-time.Minute)
	f.Namespaces.Value[0].Deleted = now.Add(-time.Minute)
	f.Requests.Value = []Request{{"csr-1", "m1", now, false}}
	if results := Run(f); Worst(results) != OK {
		t.Errorf("got %+v", results)
	}
}

func TestOneCheckReportsAtMostTen(t *testing.T) {
	f := healthy()
	f.Works.Value = nil
	for range 25 {
		f.Works.Value = append(f.Works.Value, Object{Kind: "Work", Namespace: "karmada-es-m1", Name: "w", Conditions: []metav1.Condition{workv1alpha1.NotApplied(1, "no")}})
	}
	results := Conditions(f)
	if len(results) != 11 || results[10].Found != "and 15 more" || results[10].Status != Warning {
		t.Errorf("got %+v", results)
	}
}

func TestBackupsByTheMetric(t *testing.T) {
	for name, tc := range map[string]struct {
		last []Sample
		want Status
	}{
		"Never": {nil, Warning},
		"Now":   {[]Sample{{Value: float64(now.Add(-time.Hour).Unix())}}, OK},
		"Old":   {[]Sample{{Value: float64(now.Add(-8 * time.Hour).Unix())}}, Failure},
	} {
		f := healthy()
		f.Backups = nil
		f.Metrics.Value["flagship_backup_last_timestamp_seconds"] = tc.last
		if got := Backups(f); len(got) != 1 || got[0].Status != tc.want {
			t.Errorf("%s: got %+v, want %s", name, got, tc.want)
		}
	}
}

package checks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/version"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
)

const (
	// expiresSoon and expiresNow are below the time at which the control plane replaces its certificates.
	expiresSoon, expiresNow = 30 * 24 * time.Hour, 7 * 24 * time.Hour
	// renewalLate is how long after the time of its renewal a token is a warning: a member that is away is tried again.
	renewalLate = time.Hour
	// usedMuch and usedUp are shares of the quota of the database.
	usedMuch, usedUp = 0.8, 0.95
	// diskLow and diskOut are free bytes of the disk. A new file of the log takes 64 MB at once.
	diskLow, diskOut = 1 << 30, 128 << 20
	// freeShare and freeBytes are the free part of the database from which a start shrinks it.
	freeShare, freeBytes = 0.5, 64 << 20
	// clockOff is the difference above which a member has the condition ClockInSync.
	clockOff = time.Minute
	// agentRenewalLate is what is left of a certificate that an agent has not renewed in time. It renews after half of its life, of 30 days by
	// default.
	agentRenewalLate = 24 * time.Hour
	// stuckLoop is the age of a reconcile above which a loop is stuck, in seconds.
	stuckLoop = 300
	// oldestKubernetes is the oldest version of members that is supported.
	oldestKubernetes = "1.30.0"
)

// Run makes all checks.
func Run(f Facts) []Result {
	all := []func(Facts) []Result{
		ControlPlane, Loops, Storage, Certificates, Credentials, Agents, Clocks, Members, Versions, Permissions,
		Brakes, Conditions, Deleting, OrphanedWorks, OrphanedObjects, Backups,
	}
	var results []Result
	for _, check := range all {
		results = append(results, check(f)...)
	}
	return results
}

// ControlPlane checks what /readyz reports.
func ControlPlane(f Facts) []Result {
	r := &report{check: "control-plane"}
	if f.Ready.Err != nil {
		r.add(Failure, "is the process running, and the address in the kubeconfig right? docs/troubleshooting.md#the-control-plane-does-not-answer",
			"the control plane does not answer: %v", f.Ready.Err)
		return r.done("")
	}
	for _, line := range f.Ready.Value {
		r.add(Failure, "docs/troubleshooting.md#the-control-plane-is-not-ready", "not ready: %s", line)
	}
	return r.done("ready")
}

// Loops checks for reconciles that do not end.
func Loops(f Facts) []Result {
	r := &report{check: "loops"}
	if r.unread("metrics", f.Metrics.Err) {
		return r.done("")
	}
	for _, s := range f.Metrics.Value["flagship_loop_longest_running_seconds"] {
		if s.Value > stuckLoop {
			r.add(Failure, "restart the control plane, and report it with 'flagship support-bundle'", "a reconcile of %s has run for %s",
				s.Labels["loop"], duration.HumanDuration(seconds(s.Value)))
		}
	}
	return r.done("no reconcile is stuck")
}

// Storage checks the database and its disk.
func Storage(f Facts) []Result {
	r := &report{check: "storage"}
	if r.unread("metrics", f.Metrics.Err) {
		return r.done("")
	}
	m := f.Metrics.Value
	const page = "docs/troubleshooting.md#the-disk-is-full-or-writes-are-refused"
	used, known := m.one("flagship_storage_used_ratio")
	if full, _ := m.one("flagship_storage_full"); full == 1 {
		r.add(Failure, "delete objects without finalizers, or raise --storage-quota; "+page, "the database is at its quota and takes only deletions")
	} else if used >= usedMuch {
		status := Warning
		if used >= usedUp {
			status = Failure
		}
		r.add(status, "delete what is not needed, or raise --storage-quota; "+page, "%.0f%% of the quota are used", used*100)
	}
	disk, embedded := m.one("flagship_storage_disk_free_bytes")
	if embedded && disk < diskLow {
		status := Warning
		if disk < diskOut {
			status = Failure
		}
		r.add(status, "free space: the process ends when there is none; "+page, "the disk of the database has %s free", size(disk))
	}
	for _, s := range m["flagship_storage_defragmentations_total"] {
		if s.Labels["result"] == "failed" && s.Value > 0 {
			r.add(Warning, "free space on the disk of the database for a copy of it", "%.0f defragmentations failed since the start", s.Value)
		}
	}
	total, _ := m.one("etcd_mvcc_db_total_size_in_bytes")
	inUse, measured := m.one("etcd_mvcc_db_total_size_in_use_in_bytes")
	if free := total - inUse; measured && free > freeBytes && free > total*freeShare {
		r.add(Warning, "restart the control plane, which shrinks the database; it also does so once it is idle", "the database takes %s, of which %s are free", size(total), size(free))
	}
	switch {
	case !known && !embedded:
		return r.done("an external etcd: its operator has its state")
	case !embedded:
		return r.done("%.1f%% of the quota are used", used*100)
	}
	return r.done("%.1f%% of the quota are used, the disk has %s free", used*100, size(disk))
}

// Certificates checks those of the control plane and of the caller.
func Certificates(f Facts) []Result {
	r := &report{check: "certificates"}
	if r.unread("certificates", f.Certificates.Err) {
		return r.done("")
	}
	var first time.Duration
	for i, c := range f.Certificates.Value {
		left := c.Expires.Sub(f.Now)
		if i == 0 || left < first {
			first = left
		}
		const next = "docs/troubleshooting.md#a-certificate-or-credential-expires"
		switch {
		case left <= 0:
			r.add(Failure, next, "%s has expired %s ago", c.Of, duration.HumanDuration(-left))
		case left < expiresNow:
			r.add(Failure, next, "%s expires in %s", c.Of, duration.HumanDuration(left))
		case left < expiresSoon:
			r.add(Warning, next, "%s expires in %s", c.Of, duration.HumanDuration(left))
		}
	}
	return r.done("%d, the first expires in %s", len(f.Certificates.Value), duration.HumanDuration(first))
}

// Credentials checks the tokens of the control plane for members.
func Credentials(f Facts) []Result {
	r := &report{check: "credentials"}
	if r.unread("metrics", f.Metrics.Err) {
		return r.done("")
	}
	due := map[string]time.Time{}
	for _, s := range f.Metrics.Value["flagship_credential_renewal_timestamp_seconds"] {
		due[s.Labels["cluster"]+"/"+s.Labels["use"]] = time.Unix(int64(s.Value), 0)
	}
	tokens := f.Metrics.Value["flagship_credential_expiry_timestamp_seconds"]
	for _, s := range tokens {
		cluster, use := s.Labels["cluster"], s.Labels["use"]
		next := fmt.Sprintf("see why with 'kubectl describe cluster %[1]s'; 'flagship join %[1]s' makes new ones", cluster)
		left := time.Unix(int64(s.Value), 0).Sub(f.Now)
		renewal, known := due[cluster+"/"+use]
		switch {
		case left <= 0:
			r.add(Failure, next, "%s: the %s token has expired %s ago", cluster, use, duration.HumanDuration(-left))
		case known && f.Now.Sub(renewal) > renewalLate:
			r.add(Warning, next, "%s: the %s token should have been renewed %s ago and expires in %s", cluster, use,
				duration.HumanDuration(f.Now.Sub(renewal)), duration.HumanDuration(left))
		}
	}
	return r.done("%d tokens for members are renewed in time", len(tokens))
}

// Agents checks what agents report of themselves, and the certificates that they request.
func Agents(f Facts) []Result {
	r := &report{check: "agents"}
	if !r.unread("certificate requests", f.Requests.Err) {
		for _, request := range f.Requests.Value {
			next := fmt.Sprintf("kubectl describe certificatesigningrequest %s", request.Name)
			if request.Denied {
				r.add(Warning, next, "%s: the certificate request of the agent was refused", request.Cluster)
			} else if f.Now.Sub(request.Created) > f.Patience {
				r.add(Warning, next, "%s: the certificate request of the agent waits for %s", request.Cluster, duration.HumanDuration(f.Now.Sub(request.Created)))
			}
		}
	}
	read := !r.unread("leases of agents", f.Agents.Err)
	pull := 0
	for i := range f.Clusters.Value {
		c := &f.Clusters.Value[i]
		if c.Spec.SyncMode != clusterv1alpha1.Pull {
			continue
		}
		pull++
		if agent, reports := f.Agents.Value[c.Name]; read && reports {
			r.agent(f, c.Name, agent)
		}
	}
	return r.done("%d members in Pull mode, certificates are renewed in time", pull)
}

// agent checks one. An agent of Karmada reports neither.
func (r *report) agent(f Facts, cluster string, agent Agent) {
	if left := agent.Expires.Sub(f.Now); !agent.Expires.IsZero() && left < agentRenewalLate {
		next := "see the log of the agent; 'flagship token create' and 'flagship register' give it a new one"
		if left <= 0 {
			r.add(Failure, next, "%s: the certificate of the agent has expired %s ago", cluster, duration.HumanDuration(-left))
		} else {
			r.add(Warning, next, "%s: the certificate of the agent expires in %s", cluster, duration.HumanDuration(left))
		}
	}
	own := f.Metrics.Value["flagship_build_info"]
	if len(own) == 0 {
		return
	}
	hub, hubErr := version.ParseSemantic(own[0].Labels["version"])
	is, err := version.ParseSemantic(agent.Version)
	if hubErr != nil || err != nil {
		return // not a release: there is no order
	}
	if is.Major() != hub.Major() || max(is.Minor(), hub.Minor())-min(is.Minor(), hub.Minor()) > 1 {
		r.add(Warning, "docs/upgrade.md", "%s: its agent is %s and the control plane is %s; one minor version apart is supported", cluster, is, hub)
	}
}

// Clocks checks the clocks of members, and of the caller.
func Clocks(f Facts) []Result {
	r := &report{check: "clocks"}
	if !r.unread("the time of the control plane", f.HubTime.Err) {
		if off := f.HubTime.Value.Sub(f.Now); off.Abs() > clockOff {
			r.add(Warning, "check how both set their time", "the clock of this machine is %s off that of the control plane", duration.HumanDuration(off.Abs()))
		}
	}
	if r.unread("clusters", f.Clusters.Err) {
		return r.done("")
	}
	for i := range f.Clusters.Value {
		c := &f.Clusters.Value[i]
		if found := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionClockInSync); found != nil && found.Status == metav1.ConditionFalse {
			r.add(Warning, "", "%s: %s", c.Name, found.Message)
		}
	}
	return r.done("no clock is off by more than %s", duration.HumanDuration(clockOff))
}

// Members checks whether members answer, to the control plane and to the caller.
func Members(f Facts) []Result {
	r := &report{check: "members"}
	if r.unread("clusters", f.Clusters.Err) {
		return r.done("")
	}
	for i := range f.Clusters.Value {
		c := &f.Clusters.Value[i]
		ready := meta.FindStatusCondition(c.Status.Conditions, clusterv1alpha1.ClusterConditionReady)
		switch {
		case ready == nil:
			r.add(Warning, "", "%s: its state is not known yet", c.Name)
			continue
		case ready.Status != metav1.ConditionTrue:
			r.add(Failure, "docs/troubleshooting.md#a-member-is-not-ready", "%s: %s since %s: %s", c.Name, ready.Reason,
				duration.HumanDuration(f.Now.Sub(ready.LastTransitionTime.Time)), ready.Message)
			continue
		}
		r.unreached(c.Name, f.Members[c.Name].Answer)
	}
	return r.done("%d, all ready", len(f.Clusters.Value))
}

// unreached notes that the proxy of a cluster does not lead to a member that is ready.
func (r *report) unreached(cluster string, err error) {
	if err == nil || isForbidden(err) { // who may not use the proxy has the condition
		return
	}
	r.add(Warning, "docs/troubleshooting.md#a-member-is-not-ready", "%s: is Ready, and does not answer through its proxy: %v", cluster, err)
}

// Versions checks the versions of Kubernetes.
func Versions(f Facts) []Result {
	r := &report{check: "versions"}
	if r.unread("the version of the control plane", f.Kubernetes.Err) || r.unread("clusters", f.Clusters.Err) {
		return r.done("")
	}
	hub, err := version.ParseGeneric(f.Kubernetes.Value)
	if r.unread("the version of the control plane", err) {
		return r.done("")
	}
	oldest := version.MustParseGeneric(oldestKubernetes)
	seen := map[string]int{}
	for i := range f.Clusters.Value {
		c := &f.Clusters.Value[i]
		if c.Status.KubernetesVersion == "" {
			continue // Members has the reason
		}
		seen[c.Status.KubernetesVersion]++
		member, err := version.ParseGeneric(c.Status.KubernetesVersion)
		switch {
		case err != nil:
			r.add(Unchecked, "", "%s: its version is %q", c.Name, c.Status.KubernetesVersion)
		case member.LessThan(oldest):
			r.add(Warning, "upgrade the member", "%s runs Kubernetes %s, older than %s", c.Name, member, oldestKubernetes)
		case member.Major() != hub.Major() || member.Minor() > hub.Minor():
			r.add(Warning, "upgrade the control plane: it may drop fields that it does not have", "%s runs Kubernetes %s, newer than %s of the control plane", c.Name, member, hub)
		}
	}
	text := []string{"control plane " + f.Kubernetes.Value}
	for _, v := range slices.Sorted(maps.Keys(seen)) {
		text = append(text, fmt.Sprintf("%d members %s", seen[v], v))
	}
	return r.done("%s", strings.Join(text, ", "))
}

// Permissions checks the rights of the control plane's account in members in Push mode.
func Permissions(f Facts) []Result {
	r := &report{check: "permissions"}
	if r.unread("clusters", f.Clusters.Err) {
		return r.done("")
	}
	checked := 0
	for i := range f.Clusters.Value {
		c := &f.Clusters.Value[i]
		member, asked := f.Members[c.Name]
		if !asked || c.Spec.SyncMode == clusterv1alpha1.Pull || member.Answer != nil && !isForbidden(member.Answer) {
			continue // Members has the reason
		}
		if r.unread(c.Name, member.Denied.Err) {
			continue
		}
		checked++
		if len(member.Denied.Value) > 0 {
			r.add(Warning, fmt.Sprintf("'flagship join %s --rights-file FILE' with these rights; docs/security.md", c.Name),
				"%s: the control plane may not %s", c.Name, strings.Join(member.Denied.Value, ", "))
		}
	}
	return r.done("the control plane has the rights that it needs in %d members", checked)
}

// Backups checks the age of the newest backup: by the directory that was named, or by the time that the control plane has of the last one.
func Backups(f Facts) []Result {
	r := &report{check: "backups"}
	const next = "'flagship backup create', and see that 'flagship backup schedule' runs"
	made := f.Backups
	if made == nil {
		if r.unread("metrics", f.Metrics.Err) {
			return r.done("")
		}
		last, known := f.Metrics.Value.one("flagship_backup_last_timestamp_seconds")
		if !known {
			r.add(Warning, next+"; --backup-dir names the directory of those made elsewhere", "the control plane has never been backed up from its data directory")
			return r.done("")
		}
		made = &Read[[]time.Time]{Value: []time.Time{time.Unix(int64(last), 0)}}
	}
	if r.unread("backups", made.Err) {
		return r.done("")
	}
	if len(made.Value) == 0 {
		r.add(Failure, next, "the directory has no backup")
		return r.done("")
	}
	newest := f.Now.Sub(slices.MaxFunc(made.Value, time.Time.Compare))
	if newest > cmp.Or(f.BackupAge, 24*time.Hour) {
		r.add(Failure, next, "the newest backup is %s old", duration.HumanDuration(newest))
	}
	return r.done("the newest is %s old", duration.HumanDuration(newest))
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// size is a number of bytes as a quantity, such as 12Mi.
func size(bytes float64) string {
	unit := int64(1)
	for float64(unit)*1024 <= bytes {
		unit *= 1024
	}
	return resource.NewQuantity(int64(bytes)/unit*unit, resource.BinarySI).String()
}

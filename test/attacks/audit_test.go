package attacks_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/flagship-k8s/flagship/internal/tools/fleettest"
)

// recordsOf are the records of an audit log.
func recordsOf(t *testing.T, path string) []auditv1.Event {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1] // the last record may be in the middle of being written
	var records []auditv1.Event
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var record auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		records = append(records, record)
	}
	return records
}

// expectRecord waits until an audit log holds a record, and returns it.
func expectRecord(t *testing.T, path string, wanted func(auditv1.Event) bool) auditv1.Event {
	t.Helper()
	deadline := time.After(fleettest.Patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		records := recordsOf(t, path)
		for _, record := range records {
			if wanted(record) {
				return record
			}
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("none of the %d records in %s is the one that is waited for", len(records), path)
		}
	}
}

// TestWhoDidWhatIsRecorded: what users do to a control plane that can write to every cluster is on record by itself; what
// the control plane does itself, and what an object holds, is not.
func TestWhoDidWhatIsRecorded(t *testing.T) {
	fleet := shared.Start(t)
	ns := fleet.Namespace(t)
	const password = "canary-for-the-audit-2250"
	path := filepath.Join(fleet.Dir, "hub", "audit", "audit.log")

	tenant := fleet.Hub.Tenant(t, ns, "secrets", "propagationpolicies")
	secret := fleettest.Secret(ns, "audited", map[string]string{"password": password})
	fleettest.Create(t, tenant, secret, fleettest.Policy(ns, "audited", fleettest.To("member1"), secret))
	// The control plane has made a binding and a Work, and written their statuses, when the Secret is in the member.
	fleettest.ExpectEventually(t, fleet.Member("member1"), fleettest.Secret(ns, "audited", nil), fleettest.Exists[*corev1.Secret])
	if err := tenant.Create(t.Context(), fleettest.ConfigMap(ns, "refused", nil)); err == nil {
		t.Error("a tenant may write a kind that he has no right to")
	}

	of := func(resource, name string, code int32) func(auditv1.Event) bool {
		return func(e auditv1.Event) bool {
			return e.Verb == "create" && e.ImpersonatedUser != nil && e.ImpersonatedUser.Username == "tenant-"+ns &&
				e.ObjectRef != nil && e.ObjectRef.Resource == resource && e.ObjectRef.Namespace == ns && e.ObjectRef.Name == name &&
				e.ResponseStatus != nil && e.ResponseStatus.Code == code
		}
	}
	expectRecord(t, path, of("secrets", "audited", 201))
	expectRecord(t, path, of("configmaps", "", 403)) // refused before the object was read, which has the name

	for _, record := range recordsOf(t, path) {
		what := fmt.Sprintf("%s %s by %s", record.Verb, record.RequestURI, record.User.Username)
		if record.User.Username == "system:apiserver" {
			t.Errorf("what the control plane does is recorded: %s", what)
		}
		into := record.ObjectRef != nil && (record.ObjectRef.Subresource == "proxy" || record.ObjectRef.APIGroup == "search.karmada.io") || strings.HasPrefix(record.RequestURI, "/flagship/")
		if !into && (record.Verb == "get" || record.Verb == "list" || record.Verb == "watch") {
			t.Errorf("a read is recorded: %s", what)
		}
		question := record.ObjectRef != nil && record.ObjectRef.APIGroup == "fleet.flagship.io"
		if record.RequestObject != nil && !question || record.ResponseObject != nil {
			t.Errorf("the content of an object is recorded: %s", what)
		}
	}
	for _, found := range filesWith(t, filepath.Dir(path), password) {
		t.Error(found)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the audit log: %v, %v, want mode 0600", info, err)
	}
}

package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseWrites(t *testing.T) {
	text := `# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="work.karmada.io",resource="works",scope="resource",subresource="",verb="POST",version="v1alpha1"} 400
apiserver_request_total{code="200",group="work.karmada.io",resource="works",subresource="status",verb="PATCH"} 800
apiserver_request_total{code="409",group="work.karmada.io",resource="works",subresource="status",verb="PATCH"} 3
apiserver_request_total{code="200",group="",resource="configmaps",subresource="",verb="GET"} 77
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",subresource="",verb="PUT"} 9
`
	got, err := ParseWrites(text)
	if err != nil {
		t.Fatal(err)
	}
	want := Writes{"POST works": 400, "PATCH works/status": 803, "refused with 409": 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reads and leases do not count, refusals count once in the total: %s", diff)
	}
	if got.Total() != 1203 {
		t.Errorf("total = %v, want 1203", got.Total())
	}
	if diff := cmp.Diff(Writes{"POST works": 100}, got.Since(Writes{"POST works": 300, "PATCH works/status": 803, "refused with 409": 3})); diff != "" {
		t.Errorf("since: %s", diff)
	}
}

func TestRowsOfWritesForAnObjectAreOrdered(t *testing.T) {
	writes := Writes{"create works": 0.4, "update works": 0.9, "delete works": 0.4, "patch works": 2.5}
	if diff := cmp.Diff([]string{"patch works", "update works", "create works", "delete works"}, writes.Rows()); diff != "" {
		t.Errorf("the largest is first, and equal ones are by name (-want +got):\n%s", diff)
	}
}

package merge

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersion(t *testing.T) {
	v := Version{"cluster2": "5678", "cluster1": "1234"}
	// What Karmada makes of the same versions.
	const text = "eyJjbHVzdGVyMSI6IjEyMzQiLCJjbHVzdGVyMiI6IjU2NzgifQ"
	if got := v.String(); got != text {
		t.Errorf("the version is %s, want %s", got, text)
	}
	if got, err := ParseVersion(text); err != nil || cmp.Diff(v, got) != "" {
		t.Errorf("read is %v, %v", got, err)
	}
	for _, any := range []string{"", "0"} {
		if got, err := ParseVersion(any); got != nil || err != nil {
			t.Errorf("%q is %v, %v, want any version", any, got, err)
		}
	}
	for _, other := range []string{"1234", "bnVsbA", "W10", "=", "eyJhIjoxfQ"} { // the middle ones are null and []
		if got, err := ParseVersion(other); err == nil {
			t.Errorf("%q is %v, want an error", other, got)
		}
		if IsVersion(other) {
			t.Errorf("%q counts as a version of several clusters", other)
		}
	}
	if !IsVersion(text) || IsVersion("") {
		t.Error("IsVersion is wrong")
	}
}

func TestPosition(t *testing.T) {
	of := Version{"a": "1", "b": "2"}
	p := Position{Version: of.String(), Cluster: "b", Continue: "token"}
	got, versions, err := ParsePosition(p.String())
	if err != nil || got != p || cmp.Diff(of, versions) != "" {
		t.Errorf("got %v of %v, %v", got, versions, err)
	}
	for _, wrong := range []string{"?", "1", Position{Version: of.String(), Cluster: "c"}.String(), Position{Cluster: "a"}.String(), Position{Version: "7", Cluster: "a"}.String()} {
		if _, _, err := ParsePosition(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

func FuzzVersion(f *testing.F) {
	f.Add("a", "1", "b", "2", "eyJhIjoiMSJ9")
	f.Add("", "", "\xff", "0", "0")
	f.Fuzz(func(t *testing.T, a, one, b, two, text string) {
		if v, err := ParseVersion(text); err == nil && v != nil {
			again, err := ParseVersion(v.String())
			if err != nil || cmp.Diff(v, again) != "" {
				t.Errorf("%q is %v, and once more %v, %v", text, v, again, err)
			}
		}
		if p, of, err := ParsePosition(text); err == nil && of[p.Cluster] == "" {
			t.Errorf("%q is a position in cluster %q, which has no version", text, p.Cluster)
		}
		// JSON has no strings that are no UTF-8; a name or a version of Kubernetes is always ASCII.
		for _, s := range []string{a, one, b, two} {
			for i := range len(s) {
				if s[i] >= 0x80 {
					return
				}
			}
		}
		v := Version{a: one, b: two}
		again, err := ParseVersion(v.String())
		if err != nil || cmp.Diff(v, again) != "" {
			t.Errorf("%v is read as %v, %v", v, again, err)
		}
	})
}

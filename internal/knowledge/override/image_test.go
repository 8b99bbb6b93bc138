package override

import (
	"strings"
	"testing"

	policyv1alpha1 "github.com/flagship-k8s/flagship/api/policy/v1alpha1"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParseImage(t *testing.T) {
	cases := map[string]struct {
		reason string
		want   image
	}{
		"nginx":                 {"a bare name is a repository", image{repository: "nginx"}},
		"nginx:1.27":            {"a colon without a slash starts a tag", image{repository: "nginx", tag: "1.27"}},
		"library/nginx":         {"a first element without a period is no registry", image{repository: "library/nginx"}},
		"localhost/nginx":       {"localhost is a registry", image{registry: "localhost", repository: "nginx"}},
		"localhost:5000/nginx":  {"a port makes a registry", image{registry: "localhost:5000", repository: "nginx"}},
		"host:5000/a/b/c:v1":    {"only the last colon starts the tag", image{registry: "host:5000", repository: "a/b/c", tag: "v1"}},
		"registry.k8s.io/pause": {"a period makes a registry", image{registry: "registry.k8s.io", repository: "pause"}},
		"REGISTRY/nginx":        {"upper case cannot be a repository", image{registry: "REGISTRY", repository: "nginx"}},
		"[2001:db8::1]:5000/a":  {"an IPv6 address is a registry", image{registry: "[2001:db8::1]:5000", repository: "a"}},
		"10.0.0.1:80/x_y/z--w":  {"separators inside path elements", image{registry: "10.0.0.1:80", repository: "x_y/z--w"}},
		"nginx@" + digest:       {"a digest without a tag", image{repository: "nginx", digest: digest}},
		"r.io/nginx:1@" + digest: {"a tag and a digest",
			image{registry: "r.io", repository: "nginx", tag: "1", digest: digest}},
	}
	for reference, tc := range cases {
		t.Run(reference, func(t *testing.T) {
			got, err := parseImage(reference)
			if err != nil {
				t.Fatalf("parseImage(%q): %v (%s)", reference, err, tc.reason)
			}
			if got != tc.want {
				t.Errorf("parseImage(%q) = %+v, want %+v (%s)", reference, got, tc.want, tc.reason)
			}
			if got.String() != reference {
				t.Errorf("String() = %q, want %q", got.String(), reference)
			}
		})
	}
}

func TestParseImageRefuses(t *testing.T) {
	for reference, reason := range map[string]string{
		"":                                  "nothing is no image",
		"nginx:":                            "a tag cannot be empty",
		"nginx@":                            "a digest cannot be empty",
		"nginx@sha256:12":                   "a digest has at least 32 digits",
		"/nginx":                            "a path element cannot be empty",
		"r.io//nginx":                       "a path element cannot be empty",
		"Nginx":                             "a repository is lower case",
		"nginx-":                            "a separator stands between words",
		"a..b":                              "one period separates",
		"-r.io/nginx":                       "a host does not start with a dash",
		"nginx:" + strings.Repeat("a", 129): "a tag has at most 128 characters",
		"nginx 1":                           "no blanks",
	} {
		if got, err := parseImage(reference); err == nil {
			t.Errorf("parseImage(%q) = %+v, want an error: %s", reference, got, reason)
		}
	}
}

func TestChangeImage(t *testing.T) {
	type change struct {
		component policyv1alpha1.ImageComponent
		operator  policyv1alpha1.OverriderOperator
		value     string
	}
	const add, remove, replace = policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpRemove, policyv1alpha1.OverriderOpReplace
	cases := map[string]struct {
		reference string
		change    change
		want      string
	}{
		"registry is put in front":        {"nginx:1", change{policyv1alpha1.Registry, add, "r.io"}, "r.io/nginx:1"},
		"registry is appended to":         {"r.io/nginx", change{policyv1alpha1.Registry, add, ":5000"}, "r.io:5000/nginx"},
		"registry is replaced":            {"r.io:80/a/b:1", change{policyv1alpha1.Registry, replace, "x.org"}, "x.org/a/b:1"},
		"registry with a path":            {"r.io/a", change{policyv1alpha1.Registry, replace, "x.org/mirror/"}, "x.org/mirror/a"},
		"registry is removed":             {"r.io/a/b@" + digest, change{policyv1alpha1.Registry, remove, ""}, "a/b@" + digest},
		"repository is replaced":          {"r.io/a/b:1", change{policyv1alpha1.Repository, replace, "c"}, "r.io/c:1"},
		"repository is appended to":       {"r.io/a:1", change{policyv1alpha1.Repository, add, "/fips"}, "r.io/a/fips:1"},
		"tag is set where none was":       {"a", change{policyv1alpha1.Tag, add, "1"}, "a:1"},
		"tag is appended to":              {"a:1", change{policyv1alpha1.Tag, add, "-alpine"}, "a:1-alpine"},
		"tag is replaced":                 {"a:1", change{policyv1alpha1.Tag, replace, "2"}, "a:2"},
		"tag replaces a digest":           {"a@" + digest, change{policyv1alpha1.Tag, replace, "2"}, "a:2"},
		"digest replaces a tag":           {"a:1", change{policyv1alpha1.Tag, replace, digest}, "a@" + digest},
		"tag replaces tag and digest":     {"a:1@" + digest, change{policyv1alpha1.Tag, replace, "2"}, "a:2"},
		"tag and digest replace a tag":    {"a:1", change{policyv1alpha1.Tag, replace, "2@" + digest}, "a:2@" + digest},
		"tag and digest are both removed": {"a:1@" + digest, change{policyv1alpha1.Tag, remove, ""}, "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			parsed, err := parseImage(tc.reference)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parsed.change(tc.change.component, tc.change.operator, tc.change.value)
			if err != nil || got != tc.want {
				t.Errorf("change of %q = %q, %v; want %q", tc.reference, got, err, tc.want)
			}
		})
	}
	if got, err := (image{repository: "a"}).change(policyv1alpha1.Repository, remove, ""); err == nil {
		t.Errorf("removing the repository gave %q, want an error: nothing is left", got)
	}
}

func FuzzParseImage(f *testing.F) {
	for _, seed := range []string{"nginx", "r.io:5000/a/b:1@" + digest, "localhost/x", "[::1]:80/x", "A/b:c", "a@b:c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, reference string) {
		parsed, err := parseImage(reference)
		if err != nil {
			return
		}
		if parsed.repository == "" {
			t.Fatalf("%q parsed without a repository", reference)
		}
		if parsed.String() != reference {
			t.Fatalf("%q came back as %q", reference, parsed.String())
		}
		again, err := parseImage(parsed.String())
		if err != nil || again != parsed {
			t.Fatalf("%q parsed to %+v and then to %+v, %v", reference, parsed, again, err)
		}
	})
}

package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

func TestSelectClusters(t *testing.T) {
	cases := map[string]struct{ wanted, known, want, err string }{
		"All":     {known: "b a", want: "a b"},
		"Named":   {wanted: "c a a", known: "a b c", want: "a c"},
		"Unknown": {wanted: "d", known: "b a", err: `there is no cluster "d"; there are: a, b`},
		"None":    {err: "the control plane has no clusters\nadd one with 'flagship join'"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := selectClusters(strings.Fields(tc.wanted), strings.Fields(tc.known))
			if strings.Join(got, " ") != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("it chose %v, %v", got, err)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	absent := apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web")
	other := apierrors.NewNotFound(schema.GroupResource{Group: "apps", Resource: "deployments"}, "app")
	noKind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "example.io", Kind: "Foo"}}
	cases := map[string]struct {
		errs         []error
		stderr, last string
	}{
		"AllAnswered":             {errs: []error{nil, nil}},
		"AbsentInOne":             {errs: []error{nil, absent, noKind}},
		"AbsentInAll":             {errs: []error{absent, absent}, stderr: "in none of the 2 clusters that answered: deployments.apps \"web\" not found\n", last: "not found"},
		"EachHasAnother":          {errs: []error{utilerrors.NewAggregate([]error{absent, other}), other, absent}},
		"OneIsInNone":             {errs: []error{utilerrors.NewAggregate([]error{absent, other}), other}, stderr: "in none of the 2 clusters that answered: deployments.apps \"app\" not found\n", last: "not found"},
		"AbsentInThoseThatAnswer": {errs: []error{absent, errors.New("cut\x1b[2J\noff")}, stderr: "cluster b: cut[2J off\nin none of the 1 clusters that answered: deployments.apps \"web\" not found\n", last: "1 of 2 clusters failed: b"},
		"OneFails":                {errs: []error{nil, errors.New("refused"), nil}, stderr: "cluster b: refused\n", last: "1 of 3 clusters failed: b"},
		"OneFailsInPart":          {errs: []error{nil, utilerrors.NewAggregate([]error{absent, errors.New("refused")})}, stderr: "cluster b: refused\n", last: "1 of 2 clusters failed: b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var answers []Answer[struct{}]
			for i, err := range tc.errs {
				answers = append(answers, Answer[struct{}]{Cluster: string(rune('a' + i)), Err: err})
			}
			var stderr bytes.Buffer
			err := Failures(cli.Streams{Err: &stderr}, answers)
			if stderr.String() != tc.stderr {
				t.Errorf("it printed\n%swant\n%s", stderr.String(), tc.stderr)
			}
			if (err == nil) != (tc.last == "") || err != nil && !strings.HasPrefix(err.Error(), tc.last) {
				t.Errorf("the error is %v, want %q", err, tc.last)
			}
		})
	}
}

// TestDeadlines: what ends a request, by what kind of request it is. The server answers with a line, and then with nothing until the
// client is gone; a path with /silent gets no answer.
func TestDeadlines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/silent") {
			fmt.Fprintln(w, "first")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	const limit, long = 20 * time.Millisecond, time.Hour
	cases := map[string]struct {
		path  string
		limit time.Duration
		// ends is true if the command's context ends the request.
		ends bool
		want string
	}{
		"NoAnswer":              {path: "/silent", limit: limit, want: "no answer within 20ms"},
		"NoWatch":               {path: "/silent?watch=true", limit: limit, want: "no answer within 20ms"},
		"AnAnswerWithoutEnd":    {path: "/api", limit: limit, want: "no answer within 20ms"},
		"ALogWithoutEnd":        {path: "/pods/a/log", limit: limit, want: "no answer within 20ms"},
		"AWatchUntilTheEnd":     {path: "/api?watch=true", limit: long, ends: true, want: "context canceled"},
		"ALogIsFollowed":        {path: "/pods/a/log?follow=true", limit: long, ends: true, want: "context canceled"},
		"TheCommandEndsARead":   {path: "/api", limit: long, ends: true, want: "context canceled"},
		"TheCommandEndsSilence": {path: "/silent", limit: long, ends: true, want: "context canceled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := http.Client{Transport: deadline(ctx, http.DefaultTransport, tc.limit)}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tc.ends && strings.HasPrefix(tc.path, "/silent") {
				cancel()
			}
			response, err := client.Do(request)
			if err == nil {
				defer func() { _ = response.Body.Close() }()
				if tc.ends {
					if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
						t.Fatal(err)
					}
					cancel()
				}
				_, err = io.ReadAll(response.Body)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it ended with %v, want %q", err, tc.want)
			}
		})
	}
}

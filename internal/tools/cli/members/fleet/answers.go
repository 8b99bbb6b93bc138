package fleet

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/flagship-k8s/flagship/internal/tools/cli"
)

// Answer is what one cluster returned, and what failed there: both, if only a part failed.
type Answer[T any] struct {
	Cluster string
	Value   T
	Err     error
}

// FromEach runs a function for all clusters at once and returns the answers in their order.
func FromEach[T any](members []Member, run func(Member) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() {
			value, err := run(m)
			answers[i] = Answer[T]{m.Name, value, err}
		})
	}
	wg.Wait()
	return answers
}

// Failures prints one line for each cluster that failed and returns the error of the command. That an object or a kind is not in a
// cluster is no failure, since a policy chooses the clusters of an object, unless it is in none of those that answered.
func Failures[T any](s cli.Streams, answers []Answer[T]) error {
	absent, answered := map[string]int{}, 0
	var failed []string
	for _, a := range answers {
		if failure := utilerrors.FilterOut(a.Err, IsAbsence); failure != nil {
			failed = append(failed, a.Cluster)
			fmt.Fprintf(s.Err, "cluster %s: %s\n", a.Cluster, OneLine(failure))
			continue
		}
		answered++
		for _, message := range absences(a.Err) {
			absent[message]++
		}
	}
	var missing []string
	for message, n := range absent {
		if n == answered {
			missing = append(missing, message)
		}
	}
	slices.Sort(missing)
	for _, message := range missing {
		fmt.Fprintf(s.Err, "in none of the %d clusters that answered: %s\n", answered, message)
	}
	switch {
	case len(failed) > 0:
		return fmt.Errorf("%d of %d clusters failed: %s\nsee their state with 'kubectl describe cluster NAME'", len(failed), len(answers), strings.Join(failed, ", "))
	case len(missing) > 0:
		return errors.New("not found\nlook in other namespaces with -A, or in other clusters with --clusters")
	}
	return nil
}

// IsAbsence is true if an object or a kind is not in a cluster.
func IsAbsence(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || strings.HasPrefix(err.Error(), "the server doesn't have a resource type")
}

// absences are the messages of what is not in a cluster, each once.
func absences(err error) []string {
	var out []string
	if err == nil {
		return nil
	}
	for _, e := range utilerrors.Flatten(utilerrors.NewAggregate([]error{err})).Errors() {
		if IsAbsence(e) {
			out = append(out, OneLine(e))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// OneLine is the message without the long path through the proxy. A message of a member does not control the terminal.
func OneLine(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, text)
}

// In adds the cluster to an error. The exit code of a command in a container stays readable.
func In(m Member, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cluster %s: %w", m.Name, err)
}

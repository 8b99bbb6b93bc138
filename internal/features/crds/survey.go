package crds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/flagship-k8s/flagship/internal/features/crds/compare"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

const (
	// surveyPage bounds how many objects of a member are in memory at a time.
	surveyPage = 200
	// surveyors is how many members are counted at once.
	surveyors = 2
	// examples is how many objects a message names.
	examples = 3
	// attempts is how often a count may fail before a change that only needs an event is made without it.
	attempts = 3
	// stale is the age at which a count is made again, if a reconcile needs it: objects change meanwhile.
	stale = 5 * time.Minute
)

// Count is how many objects of a member a change of their definition concerns.
type Count struct {
	Total, Invalid, Losing int
	// Examples name some of them and what is wrong.
	Examples []string
	// Failure is why they could not be counted; empty if they could.
	Failure string
	// Failures is how often in a row they could not.
	Failures int
}

// final returns whether another count would not be better. A first failure mostly means that the member cannot be reached.
func (c Count) final() bool { return c.Failure == "" || c.Failures >= attempts }

// String is the count as messages show it.
func (c Count) String() string {
	switch {
	case c.Failure != "":
		return "the objects there could not be counted: " + c.Failure
	case c.Invalid == 0 && c.Losing == 0:
		return fmt.Sprintf("none of %d objects there is affected", c.Total)
	}
	text := fmt.Sprintf("of %d objects there %d would be invalid and %d would lose fields", c.Total, c.Invalid, c.Losing)
	if len(c.Examples) > 0 {
		text += " (" + strings.Join(c.Examples, "; ") + ")"
	}
	return text
}

// subject is what is counted: one definition in one member. There is one count of it at a time, for the last change
// about.
type subject struct{ cluster, definition string }

// commission is one count to be made.
type commission struct {
	// change identifies the two definitions.
	change   string
	client   dynamic.Interface
	spec     *apiextensionsv1.CustomResourceDefinitionSpec
	versions []string
	// pending is true if it has to be made, or made again.
	pending bool
	// done is true if there is a count, made at the time at.
	done  bool
	at    time.Time
	count Count
}

// surveys makes counts, off everybody's path.
type surveys struct {
	queue workqueue.TypedInterface[subject]
	clock clock.PassiveClock

	mu          sync.Mutex
	commissions map[subject]*commission
}

func newSurveys(clk clock.PassiveClock) *surveys {
	return &surveys{queue: workqueue.NewTyped[subject](), clock: clk, commissions: map[subject]*commission{}}
}

// ask returns the count for a change, or false while it is being made for the first time. One that failed or is old is made
// again for the next call, with the connection of this call.
func (s *surveys) ask(what subject, wanted commission) (Count, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.commissions[what]
	if known != nil && known.change == wanted.change {
		if known.pending || known.count.Failure == "" && s.clock.Since(known.at) < stale {
			return known.count, known.done
		}
		wanted.done, wanted.at, wanted.count = true, known.at, known.count
	}
	wanted.pending = true
	s.commissions[what] = &wanted
	s.queue.Add(what)
	return wanted.count, wanted.done
}

// forget drops what is known of a cluster.
func (s *surveys) forget(cluster string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.commissions, func(what subject, _ *commission) bool { return what.cluster == cluster })
}

// run makes counts until ctx ends.
func (s *surveys) run(ctx context.Context) {
	var all sync.WaitGroup
	for range surveyors {
		all.Go(func() {
			for {
				what, ended := s.queue.Get()
				if ended {
					return
				}
				s.execute(ctx, what)
				s.queue.Done(what)
			}
		})
	}
	<-ctx.Done()
	s.queue.ShutDown()
	all.Wait()
}

// execute makes a count.
func (s *surveys) execute(ctx context.Context, what subject) {
	s.mu.Lock()
	wanted := s.commissions[what]
	s.mu.Unlock()
	if wanted == nil {
		return
	}
	var count Count
	err := controlloop.CatchPanic(func() error { // schemas and objects are those of users
		count = survey(ctx, wanted)
		return nil
	})
	if err != nil {
		log.FromContext(ctx).Error(err, "Objects of a definition cannot be counted", "cluster", what.cluster, "definition", what.definition)
		count = Count{Failure: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if count.Failure != "" {
		count.Failures = wanted.count.Failures + 1
	}
	wanted.count, wanted.pending, wanted.done, wanted.at = count, false, true, s.clock.Now()
}

// survey counts in every version that changes.
func survey(ctx context.Context, wanted *commission) Count {
	var count Count
	for i := range wanted.spec.Versions {
		version := &wanted.spec.Versions[i]
		if !slices.Contains(wanted.versions, version.Name) {
			continue
		}
		j, err := compare.NewValidator(version)
		if err != nil {
			return Count{Failure: err.Error()}
		}
		resource := runtimeschema.GroupVersionResource{Group: wanted.spec.Group, Version: version.Name, Resource: wanted.spec.Names.Plural}
		if err := count.add(ctx, wanted.client.Resource(resource), j); err != nil {
			return Count{Failure: err.Error()}
		}
	}
	return count
}

// add counts the objects of one version, page by page. An object is counted once for each version that changes.
func (c *Count) add(ctx context.Context, client dynamic.ResourceInterface, j *compare.Validator) error {
	options := metav1.ListOptions{Limit: surveyPage}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing them: %w", err)
		}
		for i := range page.Items {
			c.note(&page.Items[i], j.Validate(ctx, page.Items[i].Object))
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

func (c *Count) note(obj *unstructured.Unstructured, f compare.Outcome) {
	c.Total++
	var trouble string
	if len(f.Loses) > 0 {
		c.Losing++
		trouble = "loses " + strings.Join(f.Loses, ", ")
	}
	if f.Invalid != "" {
		c.Invalid++
		trouble = f.Invalid
	}
	if trouble != "" && len(c.Examples) < examples {
		name := strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
		c.Examples = append(c.Examples, name+": "+trouble)
	}
}

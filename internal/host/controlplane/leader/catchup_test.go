package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha1 "github.com/flagship-k8s/flagship/api/work/v1alpha1"
	"github.com/flagship-k8s/flagship/internal/host/controlplane/leader"
)

// works are Works by their names, and their resource versions: the state of a cache.
type works map[string]string

func (w works) list() *workv1alpha1.WorkList {
	list := &workv1alpha1.WorkList{}
	for name, version := range w {
		list.Items = append(list.Items, workv1alpha1.Work{ObjectMeta: metav1.ObjectMeta{Namespace: "karmada-es-a", Name: name, ResourceVersion: version}})
	}
	return list
}

// reader lists Works, and nothing of another kind.
type reader struct {
	client.Reader
	works func() works
	err   error
}

func (r reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.SetResourceVersion("100")
	switch list := list.(type) {
	case *workv1alpha1.WorkList:
		r.works().list().DeepCopyInto(list)
	case *metav1.PartialObjectMetadataList:
		if strings.HasPrefix(list.Kind, "Work") {
			return r.err
		}
	}
	return nil
}

// inTurn returns states one after the other, and the last one from then on.
func inTurn(states ...works) func() works {
	return func() works {
		now := states[0]
		if len(states) > 1 {
			states = states[1:]
		}
		return now
	}
}

// caches are those of a server: what its watch cache and its informer have, at each list.
func caches(stored, informed func() works) leader.Caches {
	return leader.Caches{
		Live:  reader{},
		Loops: reader{works: informed},
		Local: func(obj runtime.Object) toolscache.ListerWatcher {
			if _, ok := obj.(*workv1alpha1.Work); !ok {
				return nil
			}
			return &toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return stored().list(), nil }}
		},
	}
}

func TestInformersCatchUp(t *testing.T) {
	for name, test := range map[string]struct {
		stored   works
		informed []works
		behind   string
	}{
		"nothing is stored":               {informed: []works{{}}},
		"the informer has what is stored": {stored: works{"a": "7", "b": "9"}, informed: []works{{"a": "7", "b": "9"}}},
		"the informer is newer":           {stored: works{"a": "7"}, informed: []works{{"a": "12"}}},
		"a change arrives":                {stored: works{"a": "7", "b": "9"}, informed: []works{{"a": "7", "b": "8"}, {"a": "7", "b": "8"}, {"a": "7", "b": "9"}}},
		"a new object arrives":            {stored: works{"a": "7", "b": "9"}, informed: []works{{"a": "7"}, {"a": "7", "b": "9"}}},
		"a deletion arrives":              {stored: works{"a": "7"}, informed: []works{{"a": "7", "b": "9"}, {"a": "7"}}},
		"a change never arrives":          {stored: works{"a": "7", "b": "10"}, informed: []works{{"a": "7", "b": "9"}}, behind: "1 of 2 objects of Work"},
		"a new object never arrives":      {stored: works{"a": "7"}, informed: []works{{}}, behind: "1 of 1 objects of Work"},
		"a deletion never arrives":        {stored: works{"a": "7"}, informed: []works{{"a": "7", "b": "9"}}, behind: "1 of 1 objects of Work"},
		"one of two changes arrives":      {stored: works{"a": "7", "b": "10"}, informed: []works{{"a": "6", "b": "9"}, {"a": "7", "b": "9"}}, behind: "1 of 2 objects of Work"},
		"an old version has more digits":  {stored: works{"a": "100"}, informed: []works{{"a": "99"}}, behind: "1 of 1 objects of Work"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := leader.CatchUp(ctx, caches(inTurn(test.stored), inTurn(test.informed...)))
				switch {
				case test.behind == "" && err != nil:
					t.Error(err)
				case test.behind != "" && (err == nil || !strings.Contains(err.Error(), test.behind)):
					t.Errorf("got %v, want an error with %q", err, test.behind)
				}
			})
		})
	}
}

// TestObjectsThatChangeMeanwhile: what is created or deleted while the lists are compared delays nothing.
func TestObjectsThatChangeMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The informer never had b, which is deleted. It has c before the list of the watch cache is read again.
		stored := inTurn(works{"a": "7", "b": "9"}, works{"a": "7", "b": "9"}, works{"a": "7", "c": "101"})
		begun := time.Now()
		if err := leader.CatchUp(t.Context(), caches(stored, inTurn(works{"a": "7", "c": "101"}))); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took == 0 || took > 100*time.Millisecond {
			t.Errorf("it took %s, want until b was deleted", took)
		}
	})
}

func TestCachesThatCannotBeReadAreBehind(t *testing.T) {
	errBroken := errors.New("etcd has no leader")
	of := caches(inTurn(works{}), inTurn(works{}))
	of.Live = reader{err: errBroken}
	if err := leader.CatchUp(t.Context(), of); !errors.Is(err, errBroken) {
		t.Errorf("storage fails: got %v", err)
	}
	of = caches(inTurn(works{}), inTurn(works{}))
	of.Local = func(runtime.Object) toolscache.ListerWatcher {
		return &toolscache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errBroken }}
	}
	if err := leader.CatchUp(t.Context(), of); !errors.Is(err, errBroken) {
		t.Errorf("the watch cache fails: got %v", err)
	}
}

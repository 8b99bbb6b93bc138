package fleettest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// Patience is how long an expectation waits before it fails: far more than what is expected takes, on a machine ten times
// slower.
const Patience = 3 * time.Minute

// discoveryCatchesUp is how long a kind is requested: it is established a moment before discovery shows it, and that moment
// is long where large definitions come by the dozen.
var discoveryCatchesUp = wait.Backoff{Duration: discoveryPoll, Steps: int(Patience / discoveryPoll)}

// writersEnd is how long an update is tried again while other clients write the object: controllers write one that is new several times,
// and each try needs a moment in which none does.
var writersEnd = wait.Backoff{Duration: conflictPoll, Jitter: 1, Steps: int(Patience / conflictPoll)}

const conflictPoll = 20 * time.Millisecond

const discoveryPoll = 100 * time.Millisecond

// errAbsent is the error of an expectation about an object that does not exist.
var errAbsent = errors.New("it does not exist")

// Create makes the objects. Those outside any namespace are deleted when the test ends; the others go with their namespace.
func Create(t testing.TB, c *Cluster, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		err := retry.OnError(discoveryCatchesUp, meta.IsNoMatchError, func() error { return c.Create(t.Context(), o) })
		if err != nil {
			t.Fatalf("creating %s in %s: %v", describe(c, o), c.Name, err)
		}
		if o.GetNamespace() != "" {
			continue
		}
		t.Cleanup(func() {
			ctx, cancel := cleanupContext(t)
			defer cancel()
			if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				t.Errorf("deleting %s in %s: %v", describe(c, o), c.Name, err)
			}
		})
	}
}

// Update reads the object, changes it and writes it, again if another client wrote in between. The object given receives
// the result.
func Update[T client.Object](t testing.TB, c *Cluster, object T, change func(T)) {
	t.Helper()
	err := retry.RetryOnConflict(writersEnd, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.Update(t.Context(), object)
	})
	if err != nil {
		t.Fatalf("updating %s in %s: %v", describe(c, object), c.Name, err)
	}
}

// UpdateStatus is Update for the status of an object.
func UpdateStatus[T client.Object](t testing.TB, c *Cluster, object T, change func(T)) {
	t.Helper()
	err := retry.RetryOnConflict(writersEnd, func() error {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return c.Status().Update(t.Context(), object)
	})
	if err != nil {
		t.Fatalf("updating the status of %s in %s: %v", describe(c, object), c.Name, err)
	}
}

// Delete requests the deletion of the objects; one that is gone already is fine.
func Delete(t testing.TB, c *Cluster, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
			t.Fatalf("deleting %s in %s: %v", describe(c, o), c.Name, err)
		}
	}
}

// ExpectEventually watches the object of the given name in the cluster until the condition returns nil, and returns it. The
// object given says only which one is meant. When patience ends the test fails with the last error of the condition.
func ExpectEventually[T client.Object](t testing.TB, c *Cluster, object T, condition func(T) error) T {
	t.Helper()
	var seen T
	last := errAbsent
	err := follow(t, c, object, func(u *unstructured.Unstructured) (bool, error) {
		if u == nil {
			last = errAbsent
			return false, nil
		}
		typed, err := convert(object, u)
		if err != nil {
			return false, err
		}
		seen = typed
		last = condition(typed)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s in %s: %v: %v\nlast seen:\n%s", describe(c, object), c.Name, err, last, toYAML(seen, last))
	}
	return seen
}

// ExpectGone watches until the object does not exist.
func ExpectGone(t testing.TB, c *Cluster, object client.Object) {
	t.Helper()
	var seen *unstructured.Unstructured
	err := follow(t, c, object, func(u *unstructured.Unstructured) (bool, error) {
		if u != nil {
			seen = u
		}
		return u == nil, nil
	})
	if err != nil {
		t.Fatalf("%s in %s is still there: %v\nlast seen:\n%s", describe(c, object), c.Name, err, toYAML(seen, nil))
	}
}

// ExpectAbsent fails if the object exists now.
func ExpectAbsent(t testing.TB, c *Cluster, object client.Object) {
	t.Helper()
	copied := object.DeepCopyObject().(client.Object)
	err := c.Get(t.Context(), client.ObjectKeyFromObject(object), copied)
	if err == nil {
		t.Errorf("%s in %s exists, want it absent", describe(c, object), c.Name)
	} else if !apierrors.IsNotFound(err) {
		t.Errorf("reading %s in %s: %v", describe(c, object), c.Name, err)
	}
}

// ExpectListed watches the objects of a kind in a namespace, or everywhere if it is empty, until the condition on all of
// them returns nil. The list given receives them.
func ExpectListed[L client.ObjectList](t testing.TB, c *Cluster, list L, namespace string, condition func(L) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var last error
	for {
		err := c.List(ctx, list, client.InNamespace(namespace))
		if err == nil {
			if last = condition(list); last == nil {
				return
			}
			err = nextChange(ctx, c, list, namespace)
		}
		if err == nil {
			continue
		}
		// A server that is busy, or has started a moment ago, may refuse what it answers later.
		select {
		case <-time.After(discoveryPoll):
		case <-ctx.Done():
			t.Fatalf("%T in %s: %v: %v", list, c.Name, err, last)
		}
	}
}

// nextChange returns when an object of a kind is not what it was when the list was made.
func nextChange(ctx context.Context, c *Cluster, list client.ObjectList, namespace string) error {
	changes, err := c.Watch(ctx, list, &client.ListOptions{
		Namespace: namespace, Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()},
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer changes.Stop()
	select {
	case <-changes.ResultChan(): // closed, too: then the list is made anew
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow calls next with each state of the object, nil when it does not exist, until next is satisfied or patience ends.
func follow(t testing.TB, c *Cluster, object client.Object, next func(*unstructured.Unstructured) (bool, error)) error {
	t.Helper()
	resource, err := resourceFor(c, object)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	name := object.GetName()
	// What holds already needs no watch, whose start takes a tenth of a second.
	if u, err := resource.Get(ctx, name, metav1.GetOptions{}); err == nil {
		if done, err := next(u); done || err != nil {
			return err
		}
	}
	absent := func(store cache.Store) (bool, error) {
		for _, o := range store.List() {
			if o.(*unstructured.Unstructured).GetName() == name {
				return false, nil // its own event follows
			}
		}
		return next(nil)
	}
	_, err = watchtools.UntilWithSync(ctx, onlyNamed(resource, name), &unstructured.Unstructured{}, absent, func(e watch.Event) (bool, error) {
		u, ok := e.Object.(*unstructured.Unstructured)
		switch {
		case !ok || u.GetName() != name:
			return false, nil
		case e.Type == watch.Deleted:
			return next(nil)
		}
		return next(u)
	})
	return err
}

func onlyNamed(r dynamic.ResourceInterface, name string) *cache.ListWatch {
	only := fields.OneTermEqualSelector("metadata.name", name).String()
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return r.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return r.Watch(ctx, o)
		},
	}
}

func resourceFor(c *Cluster, object client.Object) (dynamic.ResourceInterface, error) {
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	var mapping *meta.RESTMapping
	err = retry.OnError(discoveryCatchesUp, meta.IsNoMatchError, func() error {
		mapping, err = c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finding %s in %s: %w", kind.Kind, c.Name, err)
	}
	if object.GetNamespace() == "" {
		return c.Dynamic.Resource(mapping.Resource), nil
	}
	return c.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
}

// convert makes an object of like's type.
func convert[T client.Object](like T, u *unstructured.Unstructured) (T, error) {
	if same, ok := any(u).(T); ok {
		return same, nil
	}
	typed, ok := reflect.New(reflect.TypeOf(like).Elem()).Interface().(T)
	if !ok {
		return like, fmt.Errorf("%T is not a pointer to a struct", like)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return like, fmt.Errorf("reading a %T: %w", like, err)
	}
	return typed, nil
}

// describe is "Deployment default/nginx".
func describe(c *Cluster, o client.Object) string {
	kind := fmt.Sprintf("%T", o)
	if gvk, err := apiutil.GVKForObject(o, c.Scheme()); err == nil {
		kind = gvk.Kind
	}
	return kind + " " + client.ObjectKeyFromObject(o).String()
}

func toYAML(o any, why error) string {
	if errors.Is(why, errAbsent) {
		return "  nothing"
	}
	if accessor, ok := o.(metav1.Object); ok {
		accessor.SetManagedFields(nil)
	}
	text, err := yaml.Marshal(o)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

package eventstorage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/flagship-k8s/flagship/internal/host/apiserver/native"
	"github.com/flagship-k8s/flagship/internal/knowledge/events"
)

// Storage adds the Events in memory to those in etcd. Reads and deletions include both; what clients create is stored in etcd.
type Storage struct {
	// Interface is the storage in etcd. Its versioner is a Versioner.
	storage.Interface
	memory *events.Memory
	prefix string
}

// New returns a storage of the Events in stored, which is built with a Versioner, and in memory. prefix is that of their keys.
func New(stored storage.Interface, memory *events.Memory, prefix string) *Storage {
	return &Storage{Interface: stored, memory: memory, prefix: prefix}
}

// split returns the namespace and the name in a key. Both are empty for the key of all Events, the name for that of a namespace.
func (s *Storage) split(key string) (namespace, name string) {
	namespace, name, _ = strings.Cut(strings.Trim(strings.TrimPrefix(key, s.prefix), "/"), "/")
	return namespace, name
}

// Get implements storage.Interface.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	found, ok := s.memory.Get(s.split(key))
	if !ok {
		return s.Interface.Get(ctx, key, opts, out)
	}
	revision, err := s.GetCurrentResourceVersion(ctx)
	if err != nil {
		return err
	}
	event, err := internal(found, revision)
	if err != nil {
		return err
	}
	*out.(*core.Event) = *event
	return nil
}

// GetList implements storage.Interface. A limit bounds the stored Events: those in memory come with the first page, as a server
// may return more than a client asked for in one. A list at an exact version has stored Events only.
func (s *Storage) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, out); err != nil {
		return err
	}
	if opts.Predicate.Continue != "" || opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		return nil
	}
	list := out.(*core.EventList)
	revision, err := (Versioner{}).ParseResourceVersion(list.ResourceVersion)
	if err != nil {
		return fmt.Errorf("reading the version of the stored Events: %w", err)
	}
	namespace, name := s.split(key)
	found, version := s.memory.List(namespace)
	for _, change := range found {
		if name != "" && change.Event.Name != name {
			continue
		}
		event, err := internal(change, revision)
		if err != nil {
			return err
		}
		if matches, err := opts.Predicate.Matches(event); err != nil {
			return fmt.Errorf("filtering Events in memory: %w", err)
		} else if matches {
			list.Items = append(list.Items, *event)
		}
	}
	list.ResourceVersion = formatVersion(revision, version)
	return nil
}

// Delete implements storage.Interface.
func (s *Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	namespace, name := s.split(key)
	found, ok := s.memory.Get(namespace, name)
	if !ok {
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	}
	event, err := internal(found, 0)
	if err != nil {
		return err
	}
	var uid types.UID
	if preconditions != nil && preconditions.UID != nil {
		uid = *preconditions.UID
		if err := (&storage.Preconditions{UID: &uid}).Check(key, event); err != nil {
			return err
		}
	}
	if err := validate(ctx, event); err != nil {
		return err
	}
	s.memory.Delete(namespace, name, uid)
	*out.(*core.Event) = *event
	return nil
}

// GuaranteedUpdate implements storage.Interface. Events in memory cannot be changed by clients.
func (s *Storage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	if _, ok := s.memory.Get(s.split(key)); ok {
		return apierrors.NewMethodNotSupported(core.Resource("events"), "update of an Event that the control plane keeps in memory")
	}
	return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached)
}

// Watch implements storage.Interface.
func (s *Storage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	revision, version, err := s.position(ctx, opts)
	if err != nil {
		return nil, err
	}
	namespace, name := s.split(key)
	past, changes, err := s.memory.Watch(namespace, version)
	if errors.Is(err, events.ErrExpired) {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %s", opts.ResourceVersion))
	}
	if err != nil {
		return nil, err
	}
	if opts.SendInitialEvents != nil && !*opts.SendInitialEvents && opts.ResourceVersion == "" {
		past = nil // the client receives what comes from now on
	}
	stored, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		changes.Stop()
		return nil, err
	}
	done := make(chan struct{})
	m := &merged{
		Outlet: native.Outlet{Result: make(chan watch.Event), Done: done}, done: done,
		stored: stored, changes: changes, past: past, name: name, predicate: opts.Predicate, revision: revision, version: version,
	}
	go m.run() // it ends with Stop and with the context, as the goroutines of upstream's watches do: nothing waits for those either
	return m, nil
}

// position is where a watch begins: a revision of etcd, and a version of the memory, 0 for before all its Events.
func (s *Storage) position(ctx context.Context, opts storage.ListOptions) (revision, version uint64, err error) {
	from, err := (storage.APIObjectVersioner{}).ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return 0, 0, err
	}
	if from == 0 || opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		revision, err = s.GetCurrentResourceVersion(ctx)
		return revision, 0, err
	}
	if from&memoryMask == 0 {
		return from >> memoryBits, 0, nil
	}
	// The lower part repeats every 67 million changes; the latest version with these bits is meant.
	latest := s.memory.Version()
	return from >> memoryBits, latest - (latest-from)&memoryMask, nil
}

// formatVersion makes a resourceVersion of both parts.
func formatVersion(revision, version uint64) string {
	return strconv.FormatUint(revision<<memoryBits|version&memoryMask, 10)
}

// internal is an Event in memory as the API server's storage returns it, seen at a revision of etcd.
func internal(change events.Change, revision uint64) (*core.Event, error) {
	var event core.Event
	if err := corev1conversion.Convert_v1_Event_To_core_Event(change.Event, &event, nil); err != nil {
		return nil, fmt.Errorf("converting an Event: %w", err)
	}
	event.ResourceVersion = formatVersion(revision, change.Version)
	return &event, nil
}

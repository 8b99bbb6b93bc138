package interpret

import (
	"hash/fnv"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/flagship-k8s/flagship/api/config/v1alpha1"
)

// Kinds is a set of kinds.
type Kinds func(schema.GroupVersionKind) bool

// Changes calls its subscribers when users change the operations on some kinds, so that the objects of these are reconciled. The
// zero value is ready for use.
type Changes struct {
	mu          sync.Mutex
	subscribers []func(Kinds)
}

// Subscribe adds a function that is called at every change, from one goroutine at a time. It must return quickly.
func (c *Changes) Subscribe(changed func(Kinds)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, changed)
}

// Publish calls the subscribers; nil is no change.
func (c *Changes) Publish(kinds Kinds) {
	if kinds == nil {
		return
	}
	c.mu.Lock()
	subscribers := slices.Clone(c.subscribers)
	c.mu.Unlock()
	for _, changed := range subscribers {
		changed(kinds)
	}
}

// PendingKinds are kinds whose objects are still to be reconciled. The zero value is ready for use.
type PendingKinds struct {
	mu    sync.Mutex
	kinds []Kinds
}

// Add adds kinds.
func (p *PendingKinds) Add(kinds Kinds) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds = append(p.kinds, kinds)
}

// Handle calls f with all that is pending, which stays pending if f fails or panics.
func (p *PendingKinds) Handle(f func(Kinds) error) error {
	p.mu.Lock()
	taken := p.kinds
	p.kinds = nil
	p.mu.Unlock()
	all := func(kind schema.GroupVersionKind) bool {
		return slices.ContainsFunc(taken, func(kinds Kinds) bool { return kinds(kind) })
	}
	handled := false
	defer func() { // also if f panics
		if !handled {
			for _, kinds := range taken {
				p.Add(kinds)
			}
		}
	}()
	err := f(all)
	handled = err == nil
	return err
}

// Changeable is a layer whose operations users may change.
type Changeable interface {
	// Fingerprint is another one after every change of the layer's operation on a kind, and empty if the layer has none.
	Fingerprint(schema.GroupVersionKind, configv1alpha1.InterpreterOperation) string
}

// Retention is the fingerprint of what users wrote about the fields of a kind that stay as they are in members.
func (c *Chained) Retention(kind schema.GroupVersionKind) string {
	return c.Fingerprint(kind, configv1alpha1.InterpreterOperationRetain)
}

// Fingerprint is that of the operations on a kind in all layers that users may change; it is empty if none has them. What is kept
// of a result has the fingerprint with it, so that a later change is detected.
func (c *Chained) Fingerprint(kind schema.GroupVersionKind, operations ...configv1alpha1.InterpreterOperation) string {
	sum, found := fnv.New64a(), false
	for _, operation := range operations {
		for _, layer := range c.layers {
			changeable, ok := layer.(Changeable)
			if !ok {
				continue
			}
			if print := changeable.Fingerprint(kind, operation); print != "" {
				found = true
				for _, part := range []string{string(operation), print} {
					sum.Write([]byte(strconv.Quote(part))) // never fails, by the contract of hash.Hash
				}
			}
		}
	}
	if !found {
		return ""
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

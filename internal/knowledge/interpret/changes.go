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

// Changes tells whoever asked that some kinds mean something else now, so that
// their objects have to be looked at again. The zero value is ready for use.
type Changes struct {
	mu    sync.Mutex
	tells []func(Kinds)
}

// Subscribe has tell called at every change. It is called from one goroutine at
// a time and must return quickly.
func (c *Changes) Subscribe(tell func(Kinds)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tells = append(c.tells, tell)
}

// Publish tells of a change; of nil it does not.
func (c *Changes) Publish(kinds Kinds) {
	if kinds == nil {
		return
	}
	c.mu.Lock()
	tells := slices.Clone(c.tells)
	c.mu.Unlock()
	for _, tell := range tells {
		tell(kinds)
	}
}

// Changeable is a layer whose answers users may change.
type Changeable interface {
	// Fingerprint stands for how the layer answers the operation on a kind. It is
	// empty for one it does not answer, and another one after every change.
	Fingerprint(schema.GroupVersionKind, configv1alpha1.InterpreterOperation) string
}

// Fingerprint stands for what users say about the operations on a kind; it is
// empty if they say nothing. A room that keeps what came of an answer keeps the
// fingerprint with it, to know later whether the answer still counts.
func (c *Chained) Fingerprint(kind schema.GroupVersionKind, operations ...configv1alpha1.InterpreterOperation) string {
	sum, said := fnv.New64a(), false
	for _, operation := range operations {
		for _, layer := range c.layers {
			changeable, ok := layer.(Changeable)
			if !ok {
				continue
			}
			if print := changeable.Fingerprint(kind, operation); print != "" {
				said = true
				for _, part := range []string{string(operation), print} {
					sum.Write([]byte(strconv.Quote(part))) // never fails, by the contract of hash.Hash
				}
			}
		}
	}
	if !said {
		return ""
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

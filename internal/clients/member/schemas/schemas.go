package schemas

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/flagship-k8s/flagship/internal/knowledge/bounds"
	"github.com/flagship-k8s/flagship/internal/knowledge/controlloop"
)

// Pause is how long an answer of ID may be out of date, and so how soon another request can have another answer.
const Pause = 15 * time.Second

// Schemas caches which schemas a member publishes. Nothing is read before it is needed.
type Schemas struct {
	// Clock decides when the index is read again. Required.
	Clock clock.PassiveClock
	// Index reads the index of OpenAPI documents from the member. Required.
	Index func(ctx context.Context) ([]byte, error)

	mu   sync.Mutex // held while the member is read, so that it is read once
	read time.Time
	ids  map[string]string
}

// ID stands for the fields that the member serves in the kinds of a group version: it is another one after an upgrade
// of the member, or of a CustomResourceDefinition. It is empty for a member that does not publish it.
func (s *Schemas) ID(ctx context.Context, gv schema.GroupVersion) (string, error) {
	controlloop.Lock(ctx, &s.mu)
	defer s.mu.Unlock()
	if s.read.IsZero() || s.Clock.Since(s.read) >= Pause {
		raw, err := s.Index(ctx)
		if err != nil {
			return "", fmt.Errorf("reading the schemas of the member: %w", err)
		}
		if s.ids, err = schemaIDs(raw); err != nil {
			return "", fmt.Errorf("reading which schemas the member has: %w", err)
		}
		s.read = s.Clock.Now()
	}
	path := "apis/" + gv.String()
	if gv.Group == "" {
		path = "api/" + gv.Version
	}
	return s.ids[path], nil
}

// schemaIDs reads an index of OpenAPI documents, whose addresses contain a hash of each.
func schemaIDs(raw []byte) (map[string]string, error) {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(raw, &index); err != nil {
		return nil, err
	}
	sum := bounds.Amount{}
	for path := range index.Paths {
		sum = sum.Plus(bounds.Amount{Objects: 1, Bytes: int64(len(path))})
	}
	if err := bounds.Kinds.Check(sum); err != nil {
		return nil, err
	}
	ids := make(map[string]string, len(index.Paths))
	for path, document := range index.Paths {
		h := fnv.New64a()
		h.Write([]byte(document.ServerRelativeURL)) // never fails, by the contract of hash.Hash
		ids[path] = strconv.FormatUint(h.Sum64(), 36)
	}
	return ids, nil
}

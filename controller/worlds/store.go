package worlds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

const (
	leaseKey    = "lease"
	worldPrefix = "world."
	// storeWithin bounds a word about the lease.
	storeWithin = 750 * time.Millisecond
	// writesAtOnce is how many worlds are written at a time.
	writesAtOnce = 32
)

// bucketOf is where the worlds of a space are kept.
func bucketOf(s subjects.Space) string {
	return "castnet-" + strings.ReplaceAll(s.Root()+"-"+s.Namespace(), ".", "_")
}

// store keeps a Record for each world. It is written by one controller: when another one has, its
// revisions are others, and that is bus.ErrRevision (WORLD-13). The nil store keeps nothing.
type store struct {
	kv *bus.KV

	mu        sync.Mutex
	revisions map[string]uint64
}

// load reads every world.
func (s *store) load(ctx context.Context) ([]Record, error) {
	if s == nil {
		return nil, nil
	}
	entries, err := s.kv.List(ctx, worldPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("read the worlds: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revisions = map[string]uint64{}
	var out []Record
	for _, e := range entries {
		var r Record
		err := wire.JSON.Decode(e.Value, &r)
		if err == nil && r.Name == "" {
			err = errors.New("it has no name")
		}
		if err != nil {
			return nil, fmt.Errorf("read the worlds: %s: %w", e.Key, err)
		}
		s.revisions[r.Name] = e.Revision
		out = append(out, r)
	}
	return out, nil
}

// write saves some worlds and forgets others, whose Record is nil.
func (s *store) write(ctx context.Context, worlds map[string]*Record) error {
	if s == nil {
		return nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	slots := make(chan struct{}, writesAtOnce)
	for name, r := range worlds {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := s.put(ctx, name, r); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *store) put(ctx context.Context, name string, r *Record) error {
	key := worldPrefix + name
	s.mu.Lock()
	revision := s.revisions[name]
	s.mu.Unlock()
	var value []byte
	var err error
	switch {
	case r == nil && revision == 0:
		return nil
	case r == nil:
		err = s.kv.Delete(ctx, key, revision)
		revision = 0
	default:
		if value, err = json.Marshal(r); err != nil {
			return fmt.Errorf("save world %s: %w", name, err)
		}
		if revision == 0 {
			revision, err = s.kv.Create(ctx, key, value)
		} else {
			revision, err = s.kv.Put(ctx, key, value, revision)
		}
	}
	if err != nil {
		return fmt.Errorf("save world %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revisions[name] = revision; revision == 0 {
		delete(s.revisions, name)
	}
	return nil
}

// grant is what the lease says.
func (s *store) grant(ctx context.Context) (g grant, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	e, err := s.kv.Get(ctx, leaseKey)
	switch {
	case errors.Is(err, bus.ErrNoKey):
		return grant{}, 0, nil
	case err != nil:
		return grant{}, 0, err
	}
	if err := wire.JSON.Decode(e.Value, &g); err != nil {
		return grant{}, 0, fmt.Errorf("read the lease: %w", err)
	}
	return g, e.Revision, nil
}

// writeGrant takes or renews the lease.
func (s *store) writeGrant(ctx context.Context, w writeTo) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, min(w.within, storeWithin))
	defer cancel()
	value, err := json.Marshal(w.grant)
	if err != nil {
		return 0, err
	}
	if w.revision == 0 {
		return s.kv.Create(ctx, leaseKey, value)
	}
	return s.kv.Put(ctx, leaseKey, value, w.revision)
}

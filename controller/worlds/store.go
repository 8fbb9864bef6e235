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
	// reopenWithin bounds opening the bucket again.
	reopenWithin = 750 * time.Millisecond
	// fillWithin bounds one part of filling a new bucket: the lease is to be renewed between two.
	fillWithin = 750 * time.Millisecond
	// writesAtOnce is how many worlds are written at a time.
	writesAtOnce = 32
)

// bucketOf is where the worlds of a space are kept.
func bucketOf(s subjects.Space) string {
	return "castnet-" + strings.ReplaceAll(s.Root()+"-"+s.Namespace(), ".", "_")
}

// store keeps a Record for each world. It is written by one controller: when another one has, its
// revisions are others, and that is bus.ErrRevision (WORLD-13). The nil store keeps nothing.
//
// The store remembers what it has read and written. When the bucket is gone, the store makes another one and fills it
// with that (WORLD-18).
type store struct {
	open func(context.Context) (*bus.KV, error)

	bucket sync.RWMutex // held for writing while the bucket is replaced
	kv     *bus.KV
	empty  bool // the bucket has none of the values so far

	mu     sync.Mutex
	values map[string]value
}

// value is what a key has.
type value struct {
	revision uint64 // 0: the bucket does not have it
	bytes    []byte
}

// errEmpty says that the bucket was made a second time and is not filled so far.
var errEmpty = errors.New("the bucket is new, and has no worlds so far")

// records is what a bucket holds.
type records struct {
	worlds []Record
	ended  []string  // names of worlds that ended in the last hour
	made   time.Time // when the bucket was
}

// load reads every world.
func (s *store) load(ctx context.Context) (records, error) {
	if s == nil {
		return records{}, nil
	}
	fail := func(err error) (records, error) { return records{}, fmt.Errorf("read the worlds: %w", err) }
	s.bucket.RLock()
	defer s.bucket.RUnlock()
	out := records{made: s.kv.Made()}
	values := map[string]value{}
	for e, err := range s.kv.Watch(ctx, worldPrefix+"*") {
		if err != nil {
			return fail(err)
		}
		if e.Key == "" {
			break
		}
		name := strings.TrimPrefix(e.Key, worldPrefix)
		if e.Deleted {
			out.ended = append(out.ended, name)
			continue
		}
		var r Record
		err := wire.JSON.Decode(e.Value, &r)
		if err == nil && r.Name == "" {
			err = errors.New("it has no name")
		}
		if err != nil {
			return fail(fmt.Errorf("%s: %w", e.Key, err))
		}
		values[r.Name] = value{e.Revision, e.Value}
		out.worlds = append(out.worlds, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = values
	return out, nil
}

// reopen opens the bucket again, and makes it when it is gone. When it is another bucket than before, fill is to follow.
func (s *store) reopen(ctx context.Context) error {
	kv, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.bucket.Lock()
	defer s.bucket.Unlock()
	if !kv.Made().Equal(s.kv.Made()) {
		s.empty = true
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, v := range s.values {
			s.values[name] = value{bytes: v.bytes}
		}
	}
	s.kv = kv
	return nil
}

// fill writes what the store remembers to a bucket that is new. Only the controller that has the lease does so.
func (s *store) fill(ctx context.Context) (int, error) {
	s.bucket.Lock()
	defer s.bucket.Unlock()
	if !s.empty {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, fillWithin)
	defer cancel()
	for name, v := range s.values {
		if v.revision > 0 {
			continue
		}
		revision, err := s.kv.Create(ctx, worldPrefix+name, v.bytes)
		if errors.Is(err, bus.ErrRevision) { // an earlier try wrote it
			var e bus.Entry
			if e, err = s.kv.Get(ctx, worldPrefix+name); err == nil {
				revision, err = s.kv.Put(ctx, worldPrefix+name, v.bytes, e.Revision)
			}
		}
		if err != nil {
			return 0, fmt.Errorf("fill the new bucket: world %s: %w", name, err)
		}
		s.values[name] = value{revision, v.bytes}
	}
	s.empty = false
	return len(s.values), nil
}

// forget drops what the store remembers: another controller may have written since.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = nil
}

// write saves some worlds and forgets others, whose Record is nil.
func (s *store) write(ctx context.Context, worlds map[string]*Record) error {
	if s == nil {
		return nil
	}
	s.bucket.RLock()
	defer s.bucket.RUnlock()
	if s.empty {
		return errEmpty
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
	had := s.values[name].revision
	s.mu.Unlock()
	var now value
	var err error
	switch {
	case r == nil && had == 0:
		return nil
	case r == nil:
		err = s.kv.Delete(ctx, key, had)
	default:
		if now.bytes, err = json.Marshal(r); err != nil {
			return fmt.Errorf("save world %s: %w", name, err)
		}
		if had == 0 {
			now.revision, err = s.kv.Create(ctx, key, now.bytes)
		} else {
			now.revision, err = s.kv.Put(ctx, key, now.bytes, had)
		}
	}
	if err != nil {
		return fmt.Errorf("save world %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r == nil:
		delete(s.values, name)
	case s.values == nil:
		s.values = map[string]value{name: now}
	default:
		s.values[name] = now
	}
	return nil
}

// grant is what the lease says.
func (s *store) grant(ctx context.Context) (g grant, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	s.bucket.RLock()
	defer s.bucket.RUnlock()
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
	s.bucket.RLock()
	defer s.bucket.RUnlock()
	if w.revision == 0 {
		return s.kv.Create(ctx, leaseKey, value)
	}
	return s.kv.Put(ctx, leaseKey, value, w.revision)
}

package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/wire"
)

const (
	leaseKey    = "lease"
	worldPrefix = "world."
	// storeTimeout bounds a read or a write of the lease.
	storeTimeout = 750 * time.Millisecond
	// reopenTimeout bounds one attempt to open the bucket again.
	reopenTimeout = 750 * time.Millisecond
	// fillTimeout bounds one part of filling a new bucket. The lease is renewed between two parts.
	fillTimeout = 750 * time.Millisecond
	// maxConcurrentWrites bounds the worlds that are written at a time.
	maxConcurrentWrites = 32
)

// store keeps a Record for each world. It has one writer: after another controller's write its
// revisions differ, and the error is bus.ErrRevisionConflict (WORLD-13). The nil store keeps
// nothing.
//
// The store remembers its reads and writes. When the bucket is gone, the store makes another one
// and fills it from memory (WORLD-14).
type store struct {
	open func(context.Context) (*bus.KV, error)

	bucket sync.RWMutex // held for writing while the bucket is replaced
	kv     *bus.KV
	empty  bool // the bucket is new, and values are not written to it yet

	mu     sync.Mutex
	values map[string]storedValue
}

// storedValue is the value of a key.
type storedValue struct {
	revision uint64 // 0: not in the bucket
	bytes    []byte
}

// errBucketEmpty reports that the bucket was made again and is not filled yet.
var errBucketEmpty = errors.New("the bucket is new and not filled yet")

// records is the content of a bucket.
type records struct {
	worlds []Record
	ended  []string  // names of worlds that ended in the last hour
	made   time.Time // when the bucket was created
}

// load reads every world.
func (s *store) load(ctx context.Context) (records, error) {
	if s == nil {
		return records{}, nil
	}
	fail := func(err error) (records, error) { return records{}, fmt.Errorf("cannot read the worlds: %w", err) }
	s.bucket.RLock()
	defer s.bucket.RUnlock()
	out := records{made: s.kv.Created()}
	values := map[string]storedValue{}
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
			err = errors.New("the record has no name")
		}
		if err != nil {
			return fail(fmt.Errorf("%s: %w", e.Key, err))
		}
		values[r.Name] = storedValue{e.Revision, e.Value}
		out.worlds = append(out.worlds, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = values
	return out, nil
}

// reopen opens the bucket again, and creates it if it is lost. A new bucket is filled by fill.
func (s *store) reopen(ctx context.Context) error {
	kv, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.bucket.Lock()
	defer s.bucket.Unlock()
	if !kv.Created().Equal(s.kv.Created()) {
		s.empty = true
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, v := range s.values {
			s.values[name] = storedValue{bytes: v.bytes}
		}
	}
	s.kv = kv
	return nil
}

// fill writes the remembered records to a new bucket. Only the lease holder does so.
func (s *store) fill(ctx context.Context) (int, error) {
	s.bucket.Lock()
	defer s.bucket.Unlock()
	if !s.empty {
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	for name, v := range s.values {
		if v.revision > 0 {
			continue
		}
		revision, err := s.kv.Create(ctx, worldPrefix+name, v.bytes)
		if errors.Is(err, bus.ErrRevisionConflict) { // an earlier try wrote it
			var e bus.Entry
			e, err = s.kv.Get(ctx, worldPrefix+name)
			if err == nil {
				revision, err = s.kv.Put(ctx, worldPrefix+name, v.bytes, e.Revision)
			}
		}
		if err != nil {
			return 0, fmt.Errorf("cannot write world %s to the new bucket: %w", name, err)
		}
		s.values[name] = storedValue{revision, v.bytes}
	}
	s.empty = false
	return len(s.values), nil
}

// invalidate drops the remembered records, because another controller may have written since.
func (s *store) invalidate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = nil
}

// write saves worlds, and deletes those with a nil Record.
func (s *store) write(ctx context.Context, worlds map[string]*Record) error {
	if s == nil {
		return nil
	}
	s.bucket.RLock()
	defer s.bucket.RUnlock()
	if s.empty {
		return errBucketEmpty
	}
	names := slices.Sorted(maps.Keys(worlds))
	errs := make([]error, len(names))
	fanout.Each(maxConcurrentWrites, names, func(i int, name string) {
		errs[i] = s.put(ctx, name, worlds[name])
	})
	return errors.Join(errs...)
}

func (s *store) put(ctx context.Context, name string, r *Record) error {
	key := worldPrefix + name
	s.mu.Lock()
	had := s.values[name].revision
	s.mu.Unlock()
	var now storedValue
	var err error
	switch {
	case r == nil && had == 0:
		return nil
	case r == nil:
		err = s.kv.Delete(ctx, key, had)
	default:
		now.bytes, err = json.Marshal(r)
		if err != nil {
			return fmt.Errorf("cannot save world %s: %w", name, err)
		}
		if had == 0 {
			now.revision, err = s.kv.Create(ctx, key, now.bytes)
		} else {
			now.revision, err = s.kv.Put(ctx, key, now.bytes, had)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot save world %s: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r == nil:
		delete(s.values, name)
	case s.values == nil:
		s.values = map[string]storedValue{name: now}
	default:
		s.values[name] = now
	}
	return nil
}

// readLease reads the lease.
func (s *store) readLease(ctx context.Context) (g leaseRecord, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s.bucket.RLock()
	defer s.bucket.RUnlock()
	e, err := s.kv.Get(ctx, leaseKey)
	if errors.Is(err, bus.ErrKeyNotFound) {
		return leaseRecord{}, 0, nil
	}
	if err != nil {
		return leaseRecord{}, 0, err
	}
	if err := wire.JSON.Decode(e.Value, &g); err != nil {
		return leaseRecord{}, 0, fmt.Errorf("cannot decode the lease: %w", err)
	}
	return g, e.Revision, nil
}

// writeLease takes or renews the lease.
func (s *store) writeLease(ctx context.Context, w writeLease) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, min(w.timeout, storeTimeout))
	defer cancel()
	value, err := json.Marshal(w.leaseRecord)
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

package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// kvTimeout bounds an operation on a bucket without a context deadline.
	kvTimeout = 5 * time.Second

	// tombstoneTTL is the time for which the store remembers a deleted key.
	tombstoneTTL = time.Hour

	// bucketRetryInterval is the time between attempts to open a bucket that the servers are removing.
	bucketRetryInterval = 20 * time.Millisecond

	// MaxKVValue bounds a value, in bytes.
	MaxKVValue = 1 << 20
)

var (
	// ErrNoJetStream reports that JetStream is off, on the servers or for this account.
	ErrNoJetStream = errors.New("bus: the server has no JetStream")

	// ErrJetStreamUnavailable reports that JetStream does not answer: its cluster has no leader, or
	// no quorum.
	ErrJetStreamUnavailable = errors.New("bus: JetStream does not answer")

	// ErrKeyNotFound reports that a bucket has no such key.
	ErrKeyNotFound = errors.New("bus: no such key")

	// ErrRevisionConflict reports that another writer changed the key in between, or that it exists
	// already.
	ErrRevisionConflict = errors.New("bus: the key has another revision")
)

// KVOptions describe a bucket, created on first use.
type KVOptions struct {
	Bucket   string
	Replicas int // number of copies in a cluster; 0: one
}

// KV is a bucket of keys in JetStream. Each write names the revision it replaces and fails with
// ErrRevisionConflict if that is not the newest: of several writers one succeeds (BUS-7). A value
// from Get may be slightly old.
type KV struct {
	conn    *Conn
	bucket  string
	kv      jetstream.KeyValue
	created time.Time
}

// Entry is a key with its value.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
	Deleted  bool // set by Watch only
}

// KV opens a bucket. Without JetStream it returns ErrNoJetStream.
func (c *Conn) KV(ctx context.Context, o KVOptions) (*KV, error) {
	ctx, cancel := bounded(ctx, kvTimeout)
	defer cancel()
	if isAloneWithoutJetStream(c.nc) {
		return nil, fmt.Errorf("%w: open the bucket %s", ErrNoJetStream, o.Bucket)
	}
	k := &KV{conn: c, bucket: o.Bucket}
	js, err := jetstream.New(c.nc)
	if err != nil {
		return nil, k.translate(err, "open the bucket "+o.Bucket)
	}
	err = k.failOnDenied(ctx, func(ctx context.Context) error {
		for {
			k.kv, k.created, err = openBucket(ctx, js, o)
			if !isBeingRemoved(err) {
				return err
			}
			select {
			case <-time.After(bucketRetryInterval):
			case <-ctx.Done():
				return err
			}
		}
	})
	if err != nil {
		return nil, k.translate(err, "open the bucket "+o.Bucket)
	}
	return k, nil
}

// isAloneWithoutJetStream reports whether the connected server says that it has no JetStream
// and belongs to no cluster. A request would tell the same by "no responders", but not beside a
// subscriber to every subject.
func isAloneWithoutJetStream(nc *nats.Conn) bool {
	server := nc.ConnectedServerId()
	enabled, _ := nc.ConnectedServerJetStream()
	clustered := nc.ConnectedClusterName() != ""
	connected := server != "" && nc.ConnectedServerId() == server
	return connected && !enabled && !clustered
}

// openBucket opens or creates a bucket, and returns the time of its creation by the clock of the
// servers.
func openBucket(
	ctx context.Context, js jetstream.JetStream, o KVOptions,
) (jetstream.KeyValue, time.Time, error) {
	kv, err := js.KeyValue(ctx, o.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: o.Bucket, Replicas: max(o.Replicas, 1),
			MaxValueSize: MaxKVValue, LimitMarkerTTL: tombstoneTTL,
		})
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	stream, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok || stream.StreamInfo() == nil {
		return nil, time.Time{}, fmt.Errorf("want a bucket that is a stream, got %T", status)
	}
	return kv, stream.StreamInfo().Created, nil
}

// isBeingRemoved reports whether a bucket could not be opened because the servers are removing one
// of its name: it was found and is gone, or its files are still there.
func isBeingRemoved(err error) bool {
	const storeFailed jetstream.ErrorCode = 10049
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeStreamNotFound || api.ErrorCode == storeFailed)
}

// Created is the bucket's creation time, by the clock of the servers. A bucket removed and created
// a second time has another one.
func (k *KV) Created() time.Time { return k.created }

// failOnDenied runs an operation on a bucket, and ends it at once if the server denies its subject.
// JetStream itself does not report missing permissions.
func (k *KV) failOnDenied(ctx context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer k.conn.bus.Watch(func(s State) {
		denied, ok := errors.AsType[*PermissionError](s.Err)
		if ok && s.Conn == k.conn.name && (denied.Subject == "$JS.API.INFO" ||
			strings.Contains(denied.Subject, "KV_"+k.bucket) ||
			strings.HasPrefix(denied.Subject, "$KV."+k.bucket+".")) {
			stop(denied)
		}
	})()
	err := do(ctx)
	if denied, ok := errors.AsType[*PermissionError](context.Cause(ctx)); ok && err != nil {
		return denied
	}
	return err
}

// Get returns a key, or ErrKeyNotFound.
func (k *KV) Get(ctx context.Context, key string) (Entry, error) {
	ctx, cancel := bounded(ctx, kvTimeout)
	defer cancel()
	var e jetstream.KeyValueEntry
	err := k.failOnDenied(ctx, func(ctx context.Context) (err error) {
		e, err = k.kv.Get(ctx, key)
		return err
	})
	if err != nil {
		return Entry{}, k.translate(err, "get "+key)
	}
	return entryOf(e), nil
}

// Create writes a new key, and returns its revision.
func (k *KV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	ctx, cancel := bounded(ctx, kvTimeout)
	defer cancel()
	var revision uint64
	err := k.failOnDenied(ctx, func(ctx context.Context) (err error) {
		revision, err = k.kv.Create(ctx, key, value)
		return err
	})
	return revision, k.translate(err, "create "+key)
}

// Put replaces the value at a revision, and returns the new revision.
func (k *KV) Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := bounded(ctx, kvTimeout)
	defer cancel()
	var now uint64
	err := k.failOnDenied(ctx, func(ctx context.Context) (err error) {
		now, err = k.kv.Update(ctx, key, value, revision)
		return err
	})
	return now, k.translate(err, "put "+key)
}

// Delete deletes a key at a revision.
func (k *KV) Delete(ctx context.Context, key string, revision uint64) error {
	ctx, cancel := bounded(ctx, kvTimeout)
	defer cancel()
	err := k.failOnDenied(ctx, func(ctx context.Context) error {
		return k.kv.Purge(ctx, key, jetstream.LastRevision(revision), jetstream.PurgeTTL(tombstoneTTL))
	})
	return k.translate(err, "delete "+key)
}

// List returns every key that matches: a key, or a pattern as in NATS subjects.
func (k *KV) List(ctx context.Context, keys string) ([]Entry, error) {
	ctx, cancel := bounded(ctx, kvTimeout)
	defer cancel()
	var out []Entry
	for e, err := range k.Watch(ctx, keys) {
		if err != nil {
			return nil, err
		}
		if e.Key == "" {
			break
		}
		if !e.Deleted {
			out = append(out, e)
		}
	}
	return out, nil
}

// Watch yields every matching key, then an Entry without a key, then each change, until ctx or the
// loop ends. The loop must keep up: 256 changes may wait. An error is yielded last.
func (k *KV) Watch(ctx context.Context, keys string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var w jetstream.KeyWatcher
		err := k.failOnDenied(ctx, func(context.Context) (err error) {
			w, err = k.kv.Watch(ctx, keys) // it lives as long as its context
			return err
		})
		if err != nil {
			yield(Entry{}, k.translate(err, "watch "+keys))
			return
		}
		defer func() { _ = w.Stop() }() // its errors concern a connection or ctx that has ended
		for {
			select {
			case e, ok := <-w.Updates():
				if !ok {
					yield(Entry{}, k.translate(nats.ErrConnectionClosed, "watch "+keys))
					return
				}
				var out Entry
				if e != nil {
					out = entryOf(e)
				}
				if !yield(out, nil) {
					return
				}
			case <-ctx.Done():
				yield(Entry{}, fmt.Errorf("bus: watch %s: %w", keys, ctx.Err()))
				return
			case <-k.conn.bus.done:
				yield(Entry{}, k.conn.bus.closedErr())
				return
			}
		}
	}
}

func entryOf(e jetstream.KeyValueEntry) Entry {
	return Entry{Key: e.Key(), Value: e.Value(), Revision: e.Revision(),
		Deleted: e.Operation() != jetstream.KeyValuePut}
}

// translate turns the errors of JetStream into ours.
func (k *KV) translate(err error, doing string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled),
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("%w: %s", ErrNoJetStream, doing)
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return fmt.Errorf("%w: %s", ErrKeyNotFound, doing)
	case errors.Is(err, jetstream.ErrKeyExists), errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("%w: %s", ErrRevisionConflict, doing)
	case errors.Is(err, context.DeadlineExceeded), leaderless(err):
		return fmt.Errorf("%w: %s: %w", ErrJetStreamUnavailable, doing, err)
	}
	return k.conn.translate(err, doing)
}

// leaderless reports whether a server's error means that the cluster, or the servers of the bucket,
// have no leader.
func leaderless(err error) bool {
	// codes of nats-server without a name in nats.go
	const unavailable, offline, offlineWhy = 10008, 10118, 10194
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && slices.Contains([]jetstream.ErrorCode{unavailable, offline, offlineWhy}, e.ErrorCode)
}

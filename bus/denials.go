package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// denials detects whether the server accepted a subscription. NATS confirms none and denies by an
// asynchronous error. nats.go queues that for the event goroutine before a later Flush returns.
// After that Flush the denial is either handled or still queued; LastError tells how far to wait in
// the queue.
type denials struct {
	mu          sync.Mutex
	pending     map[*Sub]*PermissionError // nil value: not denied so far
	lastHandled error                     // handled last
	waiters     map[chan struct{}]error   // to be closed when the error is handled
}

// expect announces s; denials of its subject are kept for it until forget.
func (v *denials) expect(s *Sub) (forget func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending == nil {
		v.pending = make(map[*Sub]*PermissionError)
	}
	v.pending[s] = nil
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.pending, s)
	}
}

// check returns the verdict on s, after a Flush.
func (v *denials) check(ctx context.Context, s *Sub, lastError func() error) error {
	v.mu.Lock()
	// Under mu, handling cannot get ahead of last: it is handled, or to come.
	last := lastError()
	isNew := last != v.lastHandled //nolint:errorlint // one occurrence, not a kind
	if errors.Is(last, nats.ErrPermissionViolation) && isNew {
		handled := make(chan struct{})
		if v.waiters == nil {
			v.waiters = make(map[chan struct{}]error)
		}
		v.waiters[handled] = last
		v.mu.Unlock()
		select {
		case <-handled:
		case <-ctx.Done():
		}
		v.mu.Lock()
		delete(v.waiters, handled)
	}
	denied := v.pending[s]
	v.mu.Unlock()
	if denied != nil {
		return denied
	}
	if ctx.Err() != nil {
		return fmt.Errorf("bus: subscribe to %q: %w", s.subject, ctx.Err())
	}
	return nil
}

// record records a denial and reports whether a caller expected it.
func (v *denials) record(denied *PermissionError) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	expected := false
	for s := range v.pending {
		if s.subject == denied.Subject {
			v.pending[s] = denied
			expected = true
		}
	}
	return expected
}

// markHandled records that err and all earlier errors have been handled.
func (v *denials) markHandled(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lastHandled = err
	for handled, last := range v.waiters {
		if last == err { //nolint:errorlint // one occurrence, not a kind
			close(handled)
			delete(v.waiters, handled)
		}
	}
}

package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// verdicts finds out whether the server took a subscription. NATS confirms
// none and denies by an asynchronous error, which nats.go queues for the event
// goroutine before it lets a later Flush return. So after that Flush the denial
// is either handled, or still queued; LastError tells up to where the queue
// must be waited for.
type verdicts struct {
	mu      sync.Mutex
	pending map[*Sub]*PermissionError // nil value: not denied so far
	seen    error                     // handled last
	waiters map[chan struct{}]error   // to be closed when the error is handled
}

// expect announces s; denials of its subject are kept for it until forget.
func (v *verdicts) expect(s *Sub) (forget func()) {
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

// of returns the verdict on s, after a Flush.
func (v *verdicts) of(ctx context.Context, s *Sub, lastError func() error) error {
	v.mu.Lock()
	// Under mu, handling cannot get ahead of last: it is handled, or to come.
	last := lastError()
	if errors.Is(last, nats.ErrPermissionViolation) && last != v.seen { //nolint:errorlint // one occurrence, not a kind
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

// deny records a denial and reports whether somebody expected it.
func (v *verdicts) deny(denied *PermissionError) bool {
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

// note says that err, and all that came before it, has been handled.
func (v *verdicts) note(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seen = err
	for handled, last := range v.waiters {
		if last == err { //nolint:errorlint // one occurrence, not a kind
			close(handled)
			delete(v.waiters, handled)
		}
	}
}

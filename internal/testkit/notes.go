package testkit

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Notes collects values. Several goroutines may add, the test reads. The zero value is empty.
type Notes[T any] struct {
	mu   sync.Mutex
	all  []T
	more chan struct{} // closed by the next Add; nil without a waiter
}

// Add appends a value.
func (n *Notes[T]) Add(v T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, v)
	if n.more != nil {
		close(n.more)
		n.more = nil
	}
}

// All returns the values that match, in the order of Add; nil matches all.
func (n *Notes[T]) All(match func(T) bool) (out []T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range n.all {
		if match == nil || match(v) {
			out = append(out, v)
		}
	}
	return out
}

// Await waits until at least that number of values match, and returns them.
func (n *Notes[T]) Await(t testing.TB, least int, match func(T) bool) []T {
	t.Helper()
	for late := time.After(Patience); ; {
		n.mu.Lock()
		if n.more == nil {
			n.more = make(chan struct{})
		}
		more := n.more
		n.mu.Unlock()
		out := n.All(match)
		if len(out) >= least {
			return out
		}
		select {
		case <-more:
		case <-late:
			require.FailNow(t, "nothing arrived within "+Patience.String(), "want %d, have %v", least, out)
		}
	}
}

// Take waits until there are at least that number of values, and removes and returns all.
func (n *Notes[T]) Take(t testing.TB, least int) []T {
	t.Helper()
	n.Await(t, least, nil)
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.all
	n.all = nil
	return out
}

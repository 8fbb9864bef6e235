package actortest

import (
	"strings"
	"sync"
	"testing"
)

// testLog is a test's log. What comes after the end of the test is dropped: a test that has ended
// does not take it.
type testLog struct {
	t    testing.TB
	mu   sync.Mutex
	over bool
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.t.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

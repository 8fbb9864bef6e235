package actortest

import (
	"strings"
	"sync"
	"testing"
)

// testLog is a test's log. It drops later lines, because an ended test accepts none.
type testLog struct {
	t      testing.TB
	mu     sync.Mutex
	closed bool
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.t.Log(strings.TrimSuffix(string(line), "\n"))
	}
	return len(line), nil
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

package testkit

import (
	"bytes"
	"sync"
)

// Transcript is what a process or a logger has written so far. Several may write at once.
type Transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *Transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.Write(p)
}

func (t *Transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}

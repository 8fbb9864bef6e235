package testkit

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Transcript collects the output of a process or logger. Several goroutines may write, one reads
// its lines.
type Transcript struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	read int           // bytes returned by Line
	over bool          // the process has ended
	more chan struct{} // closed by the next change; nil without a waiter

	beside *Transcript // the other output of the process, for messages of failures; or nil
}

func (tr *Transcript) Write(p []byte) (int, error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.changed()
	return tr.buf.Write(p)
}

func (tr *Transcript) finish() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.over = true
	tr.changed()
}

func (tr *Transcript) changed() {
	if tr.more != nil {
		close(tr.more)
		tr.more = nil
	}
}

func (tr *Transcript) String() string {
	if tr == nil {
		return ""
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.buf.String()
}

// Unread returns the output not yet returned by Line.
func (tr *Transcript) Unread() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return string(tr.buf.Bytes()[tr.read:])
}

// Line returns the next line, or the incomplete last one after the end.
func (tr *Transcript) Line(t testing.TB) (line string) {
	t.Helper()
	tr.await(t, "another line", func() bool {
		rest := tr.buf.Bytes()[tr.read:]
		at := bytes.IndexByte(rest, '\n')
		if at < 0 && (!tr.over || len(rest) == 0) {
			return false
		}
		if at < 0 {
			at = len(rest) - 1
		}
		line = strings.TrimSuffix(string(rest[:at+1]), "\n")
		tr.read += at + 1
		return true
	})
	return line
}

// Find returns the next line with a text and skips those before.
func (tr *Transcript) Find(t testing.TB, text string) string {
	t.Helper()
	for {
		if line := tr.Line(t); strings.Contains(line, text) {
			return line
		}
	}
}

// Await waits until the output contains a text, read or unread.
func (tr *Transcript) Await(t testing.TB, text string) {
	t.Helper()
	tr.await(t, text, func() bool { return bytes.Contains(tr.buf.Bytes(), []byte(text)) })
}

// await waits until done, which is called under the lock.
func (tr *Transcript) await(t testing.TB, what string, done func() bool) {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	for {
		tr.mu.Lock()
		is, over := done(), tr.over
		if tr.more == nil {
			tr.more = make(chan struct{})
		}
		more := tr.more
		tr.mu.Unlock()
		if is {
			return
		}
		if over {
			require.FailNow(t, "the process has ended", "want %s:\n%s\nbeside it:\n%s", what, tr, tr.beside)
		}
		select {
		case <-more:
		case <-late.C:
			require.FailNow(t, "nothing arrived within "+Patience.String(), "want %s:\n%s\nbeside it:\n%s",
				what, tr, tr.beside)
		}
	}
}

package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Kind says what a record is about.
type Kind string

// Kinds of records.
const (
	Sent          Kind = "sent"          // about to be sent
	Undeliverable Kind = "undeliverable" // its sender knows that no handler ran it, and none will
	Indeterminate Kind = "indeterminate" // its sender knows that its fate is unknown
	Answered      Kind = "answered"      // its sender got the answer
	Settled       Kind = "settled"       // what the sender sent and did not hear of has arrived
	Handled       Kind = "handled"       // its handler has begun
	Corrupt       Kind = "corrupt"       // it arrived with other bytes
	Ended         Kind = "ended"         // a process was killed
)

// Stream is a sender and a receiver, as text. In an Ended record the receiver is the process and
// the sender is empty; in a Settled record the receiver is empty.
type Stream struct{ From, To string }

// Record is one line of a history.
type Record struct {
	Kind   Kind
	At     time.Time
	Stream Stream
	N      uint64 // the number of the message on its stream; 0: not known
	Note   string // of Handled: who handled it; else why
}

// suffix is what history files end in.
const suffix = ".history"

// Log is the history that one process writes.
type Log struct{ file *os.File }

// Create opens a history for writing; name gets the suffix that Read looks for.
func Create(name string) (*Log, error) {
	f, err := os.OpenFile(name+suffix, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create history: %w", err)
	}
	return &Log{f}, nil
}

// Add writes one record. A zero At is now.
func (l *Log) Add(r Record) error {
	if r.At.IsZero() {
		r.At = time.Now()
	}
	line := make([]byte, 0, 256)
	line = append(line, r.Kind...)
	line = append(line, '\t')
	line = strconv.AppendInt(line, r.At.UnixNano(), 10)
	for _, text := range []string{r.Stream.From, r.Stream.To} {
		line = append(line, '\t')
		line = append(line, strings.Map(oneLine, text)...)
	}
	line = append(line, '\t')
	line = strconv.AppendUint(line, r.N, 10)
	line = append(line, '\t')
	line = append(line, strings.Map(oneLine, r.Note)...)
	line = append(line, '\n')
	if _, err := l.file.Write(line); err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	return nil
}

// oneLine keeps a text from looking like the end of a field or a record.
func oneLine(r rune) rune {
	if r == '\t' || r == '\n' {
		return ' '
	}
	return r
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Read reads all histories in a folder; the records of one file are in the order they were written.
func Read(dir string) ([]Record, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, fmt.Errorf("read histories: %w", err)
	}
	var all []Record
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		whole := data[:bytes.LastIndexByte(data, '\n')+1] // HIST-1
		for line := range strings.Lines(string(whole)) {
			r, err := parse(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return nil, fmt.Errorf("read history %s: %w", name, err)
			}
			all = append(all, r)
		}
	}
	return all, nil
}

func parse(line string) (Record, error) {
	f := strings.Split(line, "\t")
	if len(f) != 6 {
		return Record{}, fmt.Errorf("%q has %d fields, want 6", line, len(f))
	}
	at, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return Record{}, fmt.Errorf("%q: %w", line, err)
	}
	n, err := strconv.ParseUint(f[4], 10, 64)
	if err != nil {
		return Record{}, fmt.Errorf("%q: %w", line, err)
	}
	return Record{Kind: Kind(f[0]), At: time.Unix(0, at), Stream: Stream{f[2], f[3]}, N: n, Note: f[5]}, nil
}

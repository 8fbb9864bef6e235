package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	maxStreams    = 64
	streamTimeout = 10 * time.Second // of a reader
	keepalive     = 5 * time.Second
)

// stream is a body of JSON documents, one a line. It belongs to one goroutine.
type stream struct {
	ctx context.Context // ends with the request, and with the page
	out http.ResponseWriter
	ctl *http.ResponseController
	err error // the first of a write
}

// serveStream runs feed with a new stream (PAGE-3). Its error is the last line.
func (p *Page) serveStream(w http.ResponseWriter, r *http.Request, feed func(*stream) error) error {
	if n := p.countStreams(1); n > maxStreams {
		p.countStreams(-1)
		return &statusError{http.StatusServiceUnavailable,
			fmt.Errorf("the page has %d streams already: close another window of it", maxStreams)}
	}
	defer p.countStreams(-1)
	ctx := r.Context()
	w.Header().Set("Content-Type", "application/x-ndjson")
	s := &stream{ctx: ctx, out: w, ctl: http.NewResponseController(w)}
	err := feed(s)
	if err != nil && ctx.Err() == nil {
		s.send(errorLine{err.Error()})
	}
	return nil
}

// countStreams adds to the number of streams, and returns it.
func (p *Page) countStreams(more int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams += more
	return p.streams
}

// errorLine is a line about what a stream lacks.
type errorLine struct {
	Error string `json:"error"`
}

// send writes a document. It returns false once the reader is gone.
func (s *stream) send(document any) bool {
	if s.err != nil || s.ctx.Err() != nil {
		return false
	}
	line, err := json.Marshal(document)
	if err == nil {
		err = errors.Join(s.ctl.SetWriteDeadline(time.Now().Add(streamTimeout)), s.write(append(line, '\n')))
	}
	s.err = err
	return err == nil
}

func (s *stream) write(line []byte) error {
	if _, err := s.out.Write(line); err != nil {
		return err
	}
	return s.ctl.Flush()
}

// each sends what comes until a side ends. While nothing comes, the stream is kept alive.
func each[T any](s *stream, from <-chan T, document func(T) any) error {
	idle := time.NewTicker(keepalive)
	defer idle.Stop()
	for {
		var line any = struct{}{}
		select {
		case v, ok := <-from:
			if !ok {
				return nil
			}
			line = document(v)
		case <-idle.C:
		case <-s.ctx.Done():
			return nil
		}
		if !s.send(line) {
			return s.err
		}
	}
}

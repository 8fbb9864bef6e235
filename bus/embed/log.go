package embed

import (
	"fmt"
	"net"
	"sync"

	"github.com/rs/zerolog"
)

// logAdapter is the server's logger. What the server calls a notice is debug to
// us. The server reports a port in use as a fatal log line, from which it
// expects not to return: it is kept for Start, which gives the error in it.
type logAdapter struct {
	log zerolog.Logger

	mu  sync.Mutex
	err error
}

func (l *logAdapter) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *logAdapter) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l *logAdapter) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *logAdapter) Warnf(format string, v ...any)   { l.log.Warn().Msgf(format, v...) }
func (l *logAdapter) Errorf(format string, v ...any)  { l.log.Error().Msgf(format, v...) }

func (l *logAdapter) Fatalf(format string, v ...any) {
	l.log.Error().Msgf(format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = fmt.Errorf(format, v...)
	for _, x := range v {
		if cause, ok := x.(*net.OpError); ok {
			l.err = cause
		}
	}
}

// fatal is the first fatal line so far.
func (l *logAdapter) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

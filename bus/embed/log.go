package embed

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// The server's warnings and errors in the log are at most logBurst in a logPeriod: a client that is
// refused causes one for each message.
const (
	logBurst  = 100
	logPeriod = 10 * time.Second
)

func newLogAdapter(log zerolog.Logger) *logAdapter {
	return &logAdapter{log: log, sampled: log.Sample(&zerolog.BurstSampler{Burst: logBurst, Period: logPeriod})}
}

// logAdapter is the server's logger. The server's notices are debug lines here. The server reports
// a port in use as a fatal log line and does not expect to continue. The adapter keeps that line,
// and Start returns it as an error.
type logAdapter struct {
	log     zerolog.Logger
	sampled zerolog.Logger // log with a rate limit, for lines that a client can cause

	mu  sync.Mutex
	err error
}

func (l *logAdapter) Noticef(format string, v ...any) { l.log.Debug().Msgf(format, v...) }
func (l *logAdapter) Debugf(format string, v ...any)  { l.log.Debug().Msgf(format, v...) }
func (l *logAdapter) Tracef(format string, v ...any)  { l.log.Trace().Msgf(format, v...) }
func (l *logAdapter) Warnf(format string, v ...any)   { l.sampled.Warn().Msgf(format, v...) }
func (l *logAdapter) Errorf(format string, v ...any)  { l.sampled.Error().Msgf(format, v...) }

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

// fatalError is the first fatal line so far.
func (l *logAdapter) fatalError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

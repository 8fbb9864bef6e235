package system

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
)

const (
	// joinInterval is the time between two joins of a host, or two heartbeats of a proc. Each is a
	// sign of life, and finds a new controller.
	joinInterval = time.Second
	// joinTimeout bounds one join, or the leave.
	joinTimeout = 2 * time.Second
	// refusedPause is the time between two joins after a refusal.
	refusedPause = 3 * time.Second
	// maxSilence is the time of unsuccessful joins and heartbeats after which a proc closes.
	maxSilence = 5 * joinInterval
	// silentStopTimeout bounds the stop of the actors of a proc that closes.
	silentStopTimeout = 5 * time.Second
)

// ErrSilent reports that a proc closes because no controller has accepted it for five intervals.
var ErrSilent = errors.New("no system controller has accepted the proc for " + maxSilence.String())

// KeepJoined joins a host or a proc to a world until ctx ends, and then leaves. It joins again when
// another controller acts, or after the host was lost. changed gets each new response. A proc sends
// heartbeats with its failed actors. Without a controller for five intervals it closes, after
// changed got ErrSilent (WORLD-9).
func KeepJoined(ctx context.Context, p *actor.Proc, j JoinRequest, changed func(JoinResponse, error)) {
	m := membership{proc: p, request: j}
	if j.Proc != nil {
		defer p.Observe(m.noteEnd)()
	}
	var said string
	var silence, pause time.Duration
	for {
		began := time.Now()
		joined, next, err := m.join(ctx)
		if err == nil {
			silence = 0
		} else { // a pause of the proc makes no attempt longer
			silence += pause + min(time.Since(began), joinTimeout)
		}
		pause = next
		if now := describeJoin(joined, err); ctx.Err() == nil && now != said {
			said = now
			changed(joined, err)
		}
		if j.Proc != nil && ctx.Err() == nil && silence >= maxSilence {
			changed(joined, ErrSilent)
			closeSilent(p)
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			m.leave()
			return
		}
	}
}

// closeSilent closes a proc that no controller supervises.
func closeSilent(p *actor.Proc) {
	ctx, cancel := context.WithTimeout(context.Background(), silentStopTimeout)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		log := p.Log()
		log.Warn().Err(err).Msg("cannot close the proc without a system controller")
	}
}

// membership is the membership of a host or a proc in a world.
type membership struct {
	proc       *actor.Proc
	request    JoinRequest
	controller *actor.Ref[*Controller] // nil: unknown
	joined     *JoinResponse           // of a proc, by that controller; nil: not joined

	mu     sync.Mutex // guards failed
	failed []string   // actors of a proc
}

// noteEnd notes a failed actor.
func (m *membership) noteEnd(e actor.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Kind == actor.KindActor && e.Failed() && len(m.failed) < maxFailed {
		m.failed = append(m.failed, e.Actor)
	}
}

// join joins once, or sends a heartbeat of a joined proc. It returns the time until the next one.
func (m *membership) join(ctx context.Context) (JoinResponse, time.Duration, error) {
	if m.controller == nil {
		to, err := Find(ctx, m.proc)
		if err != nil {
			return JoinResponse{}, joinInterval, err
		}
		m.controller = &to
	}
	within, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	joined, err := m.call(within)
	if err == nil || ctx.Err() != nil {
		return joined, joinInterval, err
	}
	m.controller = nil
	m.joined = nil
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Refused() {
		return joined, refusedPause, err
	}
	return joined, joinInterval, err
}

// call sends the join, or the heartbeat after it.
func (m *membership) call(ctx context.Context) (JoinResponse, error) {
	if m.joined != nil {
		m.mu.Lock()
		beat := HeartbeatRequest{Proc: m.request.Proc.ID, Failed: slices.Clone(m.failed)}
		m.mu.Unlock()
		_, err := Heartbeat.Call(ctx, *m.controller, beat)
		return *m.joined, err
	}
	joined, err := Join.Call(ctx, *m.controller, m.request)
	if err == nil && m.request.Proc != nil {
		m.joined = &joined
	}
	return joined, err
}

// leave announces that the member leaves. If the message is lost, its silence has the same effect
// later.
func (m *membership) leave() {
	if m.controller == nil {
		return
	}
	request := LeaveRequest{}
	if m.request.Host != nil {
		request.Host = &m.request.Host.ID
	}
	if m.request.Proc != nil {
		request.Proc = &m.request.Proc.ID
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	_, _ = Leave.Call(ctx, *m.controller, request)
}

// describeJoin is the loggable part of a join's result.
func describeJoin(j JoinResponse, err error) string {
	if err != nil {
		return err.Error()
	}
	return j.Execution
}

package system

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/actor"
)

const (
	// joinInterval is the time between two joins of a member. Each is a sign of life, and finds a
	// new controller.
	joinInterval = time.Second
	// joinTimeout bounds one join, or the leave.
	joinTimeout = 2 * time.Second
	// refusedPause is the time between two joins after a refusal.
	refusedPause = 3 * time.Second
)

// KeepJoined joins a host to a world until ctx ends, and then leaves. It joins again when another
// controller acts, or after the host was lost. changed gets each new response.
func KeepJoined(ctx context.Context, p *actor.Proc, j JoinRequest, changed func(JoinResponse, error)) {
	m := hostMembership{proc: p, request: j}
	var said string
	for {
		joined, pause, err := m.join(ctx)
		if now := describeJoin(joined, err); ctx.Err() == nil && now != said {
			said = now
			changed(joined, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			m.leave()
			return
		}
	}
}

// hostMembership is a host's membership in a world.
type hostMembership struct {
	proc       *actor.Proc
	request    JoinRequest
	controller *actor.Ref[*Controller] // nil: unknown
}

// join joins once, and returns the time until the next join.
func (m *hostMembership) join(ctx context.Context) (JoinResponse, time.Duration, error) {
	if m.controller == nil {
		to, err := Find(ctx, m.proc)
		if err != nil {
			return JoinResponse{}, joinInterval, err
		}
		m.controller = &to
	}
	within, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	joined, err := Join.Call(within, *m.controller, m.request)
	if err == nil || ctx.Err() != nil {
		return joined, joinInterval, err
	}
	m.controller = nil
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Refused() {
		return joined, refusedPause, err
	}
	return joined, joinInterval, err
}

// leave announces that the host leaves. If the message is lost, the silence of the host has the
// same effect later.
func (m *hostMembership) leave() {
	if m.controller == nil || m.request.Host == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	_, _ = Leave.Call(ctx, *m.controller, LeaveRequest{Host: &m.request.Host.ID})
}

// describeJoin is the loggable part of a join's result.
func describeJoin(j JoinResponse, err error) string {
	if err != nil {
		return err.Error()
	}
	return j.Execution
}

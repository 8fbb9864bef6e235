package worlds

import (
	"context"
	"errors"
	"time"

	"github.com/castnet-io/castnet/actor"
)

const (
	// joinEvery is between two joins of a member: each is a sign of life, and finds a controller that is new.
	joinEvery = time.Second
	// joinWithin bounds one.
	joinWithin = 2 * time.Second
	// refusedPause is between two joins of one who was refused.
	refusedPause = 3 * time.Second
)

// Stay joins a host to a world and keeps it there until ctx ends: with whichever controller there is, and again
// when it was taken for lost. Then it leaves. changed hears how it stands, each time that is another thing.
func Stay(ctx context.Context, p *actor.Proc, j Joining, changed func(Joined, error)) {
	m := standing{proc: p, joining: j}
	var said string
	for {
		joined, pause, err := m.join(ctx)
		if now := outcome(joined, err); ctx.Err() == nil && now != said {
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

// standing is how a host stands with the system controller.
type standing struct {
	proc    *actor.Proc
	joining Joining
	to      *actor.Ref[*Controller] // nil: nobody is known
}

// join joins once, and says how long to wait until the next time.
func (m *standing) join(ctx context.Context) (Joined, time.Duration, error) {
	if m.to == nil {
		to, err := Find(ctx, m.proc)
		if err != nil {
			return Joined{}, joinEvery, err
		}
		m.to = &to
	}
	within, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	joined, err := Join.Call(within, *m.to, m.joining)
	if err == nil || ctx.Err() != nil {
		return joined, joinEvery, err
	}
	m.to = nil
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Refused() {
		return joined, refusedPause, err
	}
	return joined, joinEvery, err
}

// leave says goodbye; when that is not heard, it is noticed all the same.
func (m *standing) leave() {
	if m.to == nil || m.joining.Host == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), joinWithin)
	defer cancel()
	_, _ = Leave.Call(ctx, *m.to, Leaving{Host: &m.joining.Host.ID})
}

// outcome is what is worth telling of a join.
func outcome(j Joined, err error) string {
	if err != nil {
		return err.Error()
	}
	return j.Execution
}

package host

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// pulse beats for a host until it is told to stop, and then says goodbye (HOST-12).
type pulse struct {
	proc    *actor.Proc
	said    agent.Heartbeat
	closing atomic.Pointer[string] // why; nil: it does not
	taking  atomic.Pointer[taking] // nil: procs
	soon    chan struct{}          // beat now
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

// taking is whether a host takes procs.
type taking struct {
	mode agent.HostMode
	why  string
}

func newPulse(id subjects.HostID, every time.Duration) *pulse {
	return &pulse{
		said: agent.Heartbeat{Host: id, Life: rand.Uint64(), Interval: every},
		soon: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// start begins to beat.
func (p *pulse) start(proc *actor.Proc) {
	p.proc = proc
	go p.run()
}

// close says goodbye, and waits until that is said.
func (p *pulse) close() {
	if p == nil || p.proc == nil {
		return
	}
	p.once.Do(func() { close(p.stop) })
	<-p.stopped
}

// closes has the host say that it is on its way out, and why; the first word stands.
func (p *pulse) closes(why string) {
	why = cmp.Or(brief(why), "it was asked to")
	if p != nil && p.closing.CompareAndSwap(nil, &why) {
		p.now()
	}
}

// takes has the host say at once whether it takes procs, and why not.
func (p *pulse) takes(mode agent.HostMode, why string) {
	p.taking.Store(&taking{mode, brief(why)})
	p.now()
}

// brief is as much of a reason as a heartbeat may hold.
func brief(why string) string { return strings.ToValidUTF8(why[:min(len(why), agent.MaxWhy)], "") }

// now has it beat now, if it is not about to.
func (p *pulse) now() {
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

func (p *pulse) run() {
	defer close(p.stopped)
	timer := time.NewTimer(p.said.Interval)
	defer timer.Stop()
	due := time.Now()
	for {
		p.said.Lag = max(0, time.Since(due))
		p.beat()
		due = time.Now().Add(p.said.Interval)
		timer.Reset(p.said.Interval)
		select {
		case <-timer.C:
		case <-p.soon:
		case <-p.stop:
			p.said.Lag, p.said.Goodbye = 0, true
			p.beat()
			return
		}
	}
}

// beat says that the host lives. What is not said now is not said later: the next one follows.
func (p *pulse) beat() {
	control := p.proc.Bus().Control()
	p.said.Seq++
	p.said.Conns = nil
	for _, c := range []*bus.Conn{p.proc.Bus().Data(), control} {
		if server, n := c.Client(); server != "" {
			p.said.Conns = append(p.said.Conns, agent.Connection{Server: server, Client: n})
		}
	}
	p.said.Mode, p.said.Why = "", ""
	if t := p.taking.Load(); t != nil && t.mode != agent.Open {
		p.said.Mode, p.said.Why = t.mode, t.why
	}
	if why := p.closing.Load(); why != nil {
		p.said.Closing, p.said.Why = true, *why
	}
	b, err := wire.Marshal(p.said)
	if err == nil {
		err = control.Publish(p.proc.Space().Heartbeat(agent.HostBeats, p.proc.ID().Process().String()), b)
	}
	if err != nil && !errors.Is(err, bus.ErrDisconnected) && !errors.Is(err, bus.ErrClosed) {
		log := p.proc.Log()
		log.Warn().Err(err).Msg("a heartbeat was not sent")
	}
}

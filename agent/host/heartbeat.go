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

// heartbeater sends a host's heartbeats until it is closed, and then a goodbye (HOST-12).
type heartbeater struct {
	proc      *actor.Proc
	heartbeat agent.Heartbeat
	closing   atomic.Pointer[string]     // reason; nil: not closing
	mode      atomic.Pointer[modeReason] // nil: takes procs
	gateway   atomic.Pointer[func() subjects.ProcessID]
	kick      chan struct{} // send now
	stop      chan struct{}
	stopped   chan struct{}
	once      sync.Once
}

// modeReason is the host's mode with its reason.
type modeReason struct {
	mode   agent.HostMode
	reason string
}

func newHeartbeater(id subjects.HostID, every time.Duration) *heartbeater {
	return &heartbeater{
		heartbeat: agent.Heartbeat{Host: id, Incarnation: rand.Uint64(), Interval: every},
		kick:      make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// start starts the goroutine of the heartbeats.
func (p *heartbeater) start(proc *actor.Proc) {
	p.proc = proc
	go p.run()
}

// close sends the goodbye and waits for it.
func (p *heartbeater) close() {
	if p == nil || p.proc == nil {
		return
	}
	p.once.Do(func() { close(p.stop) })
	<-p.stopped
}

// announceClosing announces that the host is about to end. The first reason stands.
func (p *heartbeater) announceClosing(why string) {
	why = cmp.Or(truncateReason(why), "stop requested")
	if p != nil && p.closing.CompareAndSwap(nil, &why) {
		p.sendNow()
	}
}

// announceMode announces the host's mode and reason at once.
func (p *heartbeater) announceMode(mode agent.HostMode, why string) {
	p.mode.Store(&modeReason{mode, truncateReason(why)})
	p.sendNow()
}

// SetGateway sets what the host's heartbeats announce as the gateway beside it: the one that serves
// at that time, or the zero ID.
func (h *Host) SetGateway(serving func() subjects.ProcessID) {
	h.heartbeater.gateway.Store(&serving)
	h.heartbeater.sendNow()
}

// truncateReason cuts a reason to the size of a heartbeat.
func truncateReason(why string) string {
	return strings.ToValidUTF8(why[:min(len(why), agent.MaxReason)], "")
}

// sendNow triggers a heartbeat, unless one is pending.
func (p *heartbeater) sendNow() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

func (p *heartbeater) run() {
	defer close(p.stopped)
	timer := time.NewTimer(p.heartbeat.Interval)
	defer timer.Stop()
	due := time.Now()
	for {
		p.heartbeat.Lag = max(0, time.Since(due))
		p.send()
		due = time.Now().Add(p.heartbeat.Interval)
		timer.Reset(p.heartbeat.Interval)
		select {
		case <-timer.C:
		case <-p.kick:
		case <-p.stop:
			p.heartbeat.Lag, p.heartbeat.Goodbye = 0, true
			p.send()
			return
		}
	}
}

// send sends a heartbeat. A failed one is not repeated, because the next one follows.
func (p *heartbeater) send() {
	control := p.proc.Bus().Control()
	p.heartbeat.Seq++
	p.heartbeat.Conns = nil
	for _, c := range []*bus.Conn{p.proc.Bus().Data(), control} {
		if server, n := c.ServerClientID(); server != "" {
			p.heartbeat.Conns = append(p.heartbeat.Conns, agent.Connection{Server: server, Client: n})
		}
	}
	if serving := p.gateway.Load(); serving != nil {
		p.heartbeat.Gateway = (*serving)()
	}
	p.heartbeat.Mode, p.heartbeat.Reason = "", ""
	if t := p.mode.Load(); t != nil && t.mode != agent.ModeOpen {
		p.heartbeat.Mode, p.heartbeat.Reason = t.mode, t.reason
	}
	if why := p.closing.Load(); why != nil {
		p.heartbeat.Closing, p.heartbeat.Reason = true, *why
	}
	b, err := wire.Marshal(p.heartbeat)
	if err == nil {
		err = control.Publish(p.proc.Space().Heartbeat(agent.KindHostHeartbeat, p.proc.Sender()), b)
	}
	if err != nil && !errors.Is(err, bus.ErrDisconnected) && !errors.Is(err, bus.ErrClosed) {
		log := p.proc.Log()
		log.Warn().Err(err).Msg("cannot send a heartbeat")
	}
}

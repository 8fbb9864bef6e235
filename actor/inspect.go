package actor

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Info is a snapshot of an actor or a proc. It is taken without a handler, so it also shows an
// actor with a stuck handler. Fields are append-only.
type Info struct {
	Kind    string `json:"kind"` // KindActor or KindProc
	ID      string `json:"id"`
	Name    string `json:"name"` // of an actor
	Type    string `json:"type,omitempty"`
	Status  Status `json:"status"`
	Reason  string `json:"reason,omitempty"` // why it ends or has ended
	Queued  int    `json:"queued"`           // messages in the mailbox
	Handled uint64 `json:"handled"`          // messages whose handler was called

	Current string `json:"current,omitempty"` // the endpoint whose handler runs
	// for how long; it may include up to 63 earlier handlers of a burst
	RunningFor time.Duration `json:"running_for,omitempty"`

	Endpoints []EndpointInfo `json:"endpoints,omitempty"` // those with calls, by name
	Parent    string         `json:"parent,omitempty"`    // the actor whose child it is
	// of an actor: its own; of a proc: those without a parent; at most 1,000, by name
	Children  []string `json:"children,omitempty"`
	Successor string   `json:"successor,omitempty"` // the actor in its place after a restart
	Failure   *Event   `json:"failure,omitempty"`   // its own, or the last of its children or actors

	// of a proc: the order of messages with the 1,000 processes it last spoke to
	Peers []Peer `json:"peers,omitempty"`
	Stats *Stats `json:"stats,omitempty"` // of a proc
}

// EndpointInfo counts the messages of one endpoint of an actor.
type EndpointInfo struct {
	Name    string `json:"name"`
	Handled uint64 `json:"handled"`
	Failed  uint64 `json:"failed"` // handler errors
	Waited  Timing `json:"waited"` // from the mailbox to the handler
	Ran     Timing `json:"ran"`    // in the handler
}

// Timing holds durations, sampled from one message in 64.
type Timing struct {
	Samples uint64        `json:"samples"`
	Mean    time.Duration `json:"mean"`
	Max     time.Duration `json:"max"`
}

// Peer is the state of the links between this process and another one: the progress of the order in
// each direction, and the reason of a stall.
type Peer struct {
	Process subjects.ProcessID `json:"process"`

	Sent uint64 `json:"sent"` // number of the last packet to it
	// of those, number of the last it has acknowledged
	Acked         uint64 `json:"acked"`
	InFlight      int    `json:"in_flight,omitempty"`     // packets without an acknowledgement
	Waiting       int    `json:"waiting,omitempty"`       // bytes in the queue
	Credit        int64  `json:"credit"`                  // bytes that may leave before the next grant
	Packets       uint64 `json:"packets"`                 // packets sent, over all links
	Retransmitted uint64 `json:"retransmitted,omitempty"` // packets sent again
	// until the acknowledgement, which may be delayed by 20 ms
	RTT time.Duration `json:"rtt,omitempty"`

	Received   uint64 `json:"received"`             // number of the last packet from it
	Duplicates uint64 `json:"duplicates,omitempty"` // duplicate packets, dropped
	Gaps       uint64 `json:"gaps,omitempty"`       // gaps in the order
	// the cause of a stall in either direction, with its duration
	StallReason string `json:"stall_reason,omitempty"`

	Heard      bool   `json:"heard"`                 // it was heard from
	DeadReason string `json:"dead_reason,omitempty"` // why the link to it is closed
}

// maxListed bounds the lists of an Info.
const maxListed = 1000

// Inspect looks at one actor of any proc, also while its handler does not return.
func (p *Proc) Inspect(ctx context.Context, id subjects.ActorID) (Info, error) {
	if !id.IsValid() {
		return Info{}, errorf(CodeInvalid, "", "", "inspect: want the ID of an actor, got %q", id)
	}
	return DecodeAnswer[Info](ask(ctx, p, clientName, id, portInfo, None{}))
}

// InspectProc is Inspect for a proc.
func (p *Proc) InspectProc(ctx context.Context, id subjects.ProcID) (Info, error) {
	return p.Inspect(ctx, id.Actor(clientName))
}

// Actor returns the Info of one actor; false if the proc never had one of that name.
func (p *Proc) Actor(name string) (Info, bool) {
	in := p.find(name)
	if in == nil {
		return Info{}, false
	}
	return in.info(), true
}

// Actors looks at every actor of the proc, the ended ones included, in no order.
func (p *Proc) Actors() []Info {
	all := p.directory.all()
	infos := make([]Info, len(all))
	for i, in := range all {
		infos[i] = in.info()
	}
	return infos
}

// Activities yields what each actor of a proc does: its type, status, mailbox, handler and
// endpoints. The other fields are empty, which makes a look at many actors cheap.
func Activities(p *Proc) iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for _, in := range p.directory.all() {
			if !yield(in.activity()) {
				return
			}
		}
	}
}

// Info looks at the proc itself.
func (p *Proc) Info() Info {
	i := Info{Kind: KindProc, ID: p.id.String(), Status: Running}
	for _, in := range p.directory.all() {
		queued, handled, status := in.load()
		i.Queued += queued
		i.Handled += handled
		if in.parent == nil && !status.Terminal() {
			i.Children = append(i.Children, in.name)
		}
	}
	i.Children = sortAndCap(i.Children)
	i.Failure = p.lastFailure.Load()
	p.mu.Lock()
	if p.failure != nil {
		i.Status = Failed
		i.Reason = p.failure.Text
	} else if p.closing {
		i.Status = Stopping
	}
	p.mu.Unlock()
	for _, peer := range p.links.Infos(maxListed) {
		i.Peers = append(i.Peers, Peer(peer))
	}
	stats := p.Stats()
	i.Stats = &stats
	return i
}

// load returns the part of an Info that a proc sums up.
func (in *instance) load() (queued int, handled uint64, s Status) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.extra != nil {
		handled = in.extra.handled
	}
	b := in.mailbox
	if b == nil {
		return 0, handled, in.state.status()
	}
	claimed := b.claimed.Load()
	if in.aborted {
		return 0, b.handled + uint64(b.claimedAtDrain), in.state.status()
	}
	return b.queued + int(b.batchSize-claimed), b.handled + uint64(claimed), in.state.status()
}

// info looks at the actor. It takes the actor's lock for a moment, and never waits for a handler.
func (in *instance) info() Info {
	i := in.activity()
	i.ID = in.id().String()
	i.Name = in.name
	if in.parent != nil {
		i.Parent = in.parent.name
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if r := in.extra; r != nil {
		e := in.event(in.state.status(), r.ending)
		i.Reason = e.Reason
		i.Failure = r.failure
		if in.state == failed {
			i.Failure = &e
		}
		if r.restartChain != nil && r.restartChain.current.Load() != in {
			i.Successor = r.restartChain.current.Load().name
		}
		if r.children != nil {
			for child := range r.children.members {
				i.Children = append(i.Children, child.name)
			}
			i.Children = sortAndCap(i.Children)
		}
	}
	return i
}

// activity returns the part of an Info that says what the actor does.
func (in *instance) activity() Info {
	i := Info{Kind: KindActor, Type: in.def.name}
	i.Queued, i.Handled, i.Status = in.load()
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.mailbox
	if b == nil {
		return i
	}
	for _, s := range b.queues {
		i.Endpoints = append(i.Endpoints, s.queue.counts().info(s.method.name))
	}
	slices.SortFunc(i.Endpoints, func(a, b EndpointInfo) int { return strings.Compare(a.Name, b.Name) })
	if claimed := b.claimed.Load(); in.phase == phaseHandling && claimed > 0 {
		i.Current = b.endpointAt(claimed)
		i.RunningFor = time.Duration(in.proc.now() - b.handlingSince.Load())
	}
	return i
}

func sortAndCap(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), maxListed)]
}

// endpointAt names the endpoint of the n-th message of the batch. The lock is held.
func (b *mailbox) endpointAt(n uint32) string {
	for _, r := range b.batch {
		if n <= uint32(r.n) {
			return r.method.name
		}
		n -= uint32(r.n)
	}
	return ""
}

// endpointStats holds the counters of an endpoint queue.
type endpointStats struct {
	handled uint64 // guarded by the lock: of finished batches
	failed  atomic.Uint64
	waited  timing // guarded by the lock
	ran     timing // guarded by the lock
}

func (c *endpointStats) info(name string) EndpointInfo {
	return EndpointInfo{name, c.handled, c.failed.Load(), c.waited.info(), c.ran.info()}
}

// timing sums up durations.
type timing struct {
	n          uint64
	total, max time.Duration
}

func (t *timing) add(d time.Duration) {
	t.n++
	t.total += d
	t.max = max(t.max, d)
}

func (t *timing) info() Timing {
	if t.n == 0 {
		return Timing{}
	}
	return Timing{t.n, t.total / time.Duration(t.n), t.max}
}

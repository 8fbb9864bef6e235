package link

import (
	"errors"
	"strconv"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// waitCredit is the credit of a process for an actor of another one, as package actor uses it: a
// request precedes each half of the window, and its grant the next request.
type waitCredit struct {
	used     int            // bytes since the last request
	request  *creditRequest // the last one, while it has no outcome
	lost     bool           // the last one was lost
	requests int
}

// creditRequest asks whether an actor has taken up what came before.
type creditRequest struct {
	from, to *proc
	actor    int
	serial   uint64 // see Asker
}

func (q *creditRequest) Asked(serial uint64) { q.serial = serial }

const (
	creditPort     = "_credit"
	requestTimeout = Instant(5 * time.Second)
)

// pending is a message whose sender waits for room, or for credit.
type pending struct {
	to       *proc
	sender   int
	actor    int
	size     int
	until    Instant
	reserved bool           // it has credit
	requests int            // those before its credit
	lost     int            // requests lost while it waited
	request  *creditRequest // set: it is that
}

func (p *proc) credit(to *proc, actor int) *waitCredit {
	key := [2]int{to.index, actor}
	if p.credits[key] == nil {
		p.credits[key] = &waitCredit{}
	}
	return p.credits[key]
}

// postWait sends when there is credit and room.
func (w *world) postWait(p *proc, k *pending) { w.tryWait(p, k, 0) }

func (w *world) tryWait(p *proc, k *pending, flags int) {
	if !k.reserved && k.request == nil && !w.reserve(p, k) {
		p.waiting = append(p.waiting, k)
		return
	}
	g := w.history.group(p)
	if k.request != nil {
		w.requests[g] = k.request
		flags |= isCreditRequest
	} else {
		flags |= isWait
	}
	switch {
	case w.send(p, k.to, k.sender, k.actor, k.size, k.until, flags, g):
		sent := &w.history.records[len(w.history.records)-1]
		sent.overtaken = k.reserved && k.requests != p.credit(k.to, k.actor).requests
	case p.core.Dead(p.peer(k.to)) == nil && k.size <= w.cfg.MaxMessage:
		p.waiting = append(p.waiting, k)
	}
}

// reserve takes credit for a message; false: it must wait.
func (w *world) reserve(p *proc, k *pending) bool {
	c, cost := p.credit(k.to, k.actor), k.size+messageCost
	if w.mutant != nil && w.mutant.credit != nil {
		w.mutant.credit(c)
	}
	if c.used > 0 && c.used+cost > w.waitWindow/2 {
		if c.request != nil {
			return false
		}
		repeats := c.lost
		w.request(p, k, c)
		if repeats {
			return false
		}
		c.used = 0
	}
	c.used += cost
	k.reserved, k.requests = true, c.requests
	return true
}

func (w *world) request(p *proc, k *pending, c *waitCredit) {
	c.request, c.lost = &creditRequest{from: p, to: k.to, actor: k.actor}, false
	c.requests++
	w.allRequests = append(w.allRequests, c.request)
	w.at(w.now+requestTimeout, evAsk, p, len(w.allRequests)-1, nil)
	w.tryWait(p, &pending{to: k.to, sender: 2, actor: k.actor, size: 8, request: c.request}, isBurst)
}

// outcome is the end of a request.
type outcome uint8

const (
	granted   outcome = iota // or the messages of those who wait find out why not
	lost                     // senders that lost two give up
	noProcess                // senders that wait give up
)

func (w *world) outcome(q *creditRequest, o outcome) {
	p, c := q.from, q.from.credit(q.to, q.actor)
	if c.request != q || !p.alive || o == lost && w.mutant != nil && w.mutant.lost {
		return
	}
	w.logf("%d: its request of %d, %s, is over: %d", p.index, q.to.index, names[q.actor], o)
	c.request, c.lost = nil, o != granted
	kept := p.waiting[:0]
	for _, k := range p.waiting {
		waits := !k.reserved && k.request == nil && k.to == q.to && k.actor == q.actor
		switch {
		case k.request == q:
			continue
		case waits && o != granted:
			k.lost++
			if k.lost == 2 || o == noProcess {
				w.counts.GivenUp++
				if w.quiet {
					w.fail("nothing went wrong, and %d gives up a wait for %d", p.index, q.to.index)
				}
				continue
			}
		}
		kept = append(kept, k)
	}
	p.waiting = kept
	w.room(p, p.peer(q.to))
}

// room lets those try again who wait.
func (w *world) room(p *proc, peer *Peer) {
	to, all := p.procOf(peer), p.waiting
	p.waiting = nil
	for _, k := range all {
		if k.to != to {
			p.waiting = append(p.waiting, k)
			continue
		}
		w.counts.Woken++
		w.tryWait(p, k, isBurst)
	}
}

// onFate ends a request that did not arrive.
func (w *world) onFate(f *Fate) {
	if g, err := strconv.Atoi(f.Mark.Type); err == nil && w.requests[g] != nil {
		w.outcome(w.requests[g], outcomeOf(f.Reason))
	}
}

// onBroken ends the requests whose answers may have gone with a link.
func (w *world) onBroken(p *proc, e *Effect) {
	why, _ := errors.AsType[*Error](e.Err)
	for _, q := range w.allRequests {
		if q.from == p && q.to == p.procOf(e.Peer) && q.serial != 0 && q.serial <= e.Serial {
			w.outcome(q, outcomeOf(why.Reason))
		}
	}
}

func outcomeOf(why Reason) outcome {
	switch why {
	case LinkReset, PeerClosed, Expired:
		return lost
	case NoProcess:
		return noProcess
	}
	return granted
}

// onRequest is a request at the process that it is for.
func (w *world) onRequest(p, from *proc, r, actor int) {
	q := w.requests[w.history.records[r].group]
	for i := range w.history.records { // what it has overtaken: followers of large messages
		o := &w.history.records[i]
		o.overtaken = o.overtaken || o.wait && o.from == from && o.to == p && o.actor == actor && o.entered == 0
	}
	if w.mutant != nil && w.mutant.early {
		w.grant(p, q)
		return
	}
	p.boxes[actor] = append(p.boxes[actor], mail{record: r, from: from, request: q})
	w.takeSoon(p, actor)
}

// grant answers a request.
func (w *world) grant(p *proc, q *creditRequest) {
	if w.mutant != nil && w.mutant.silent {
		return
	}
	w.grants[len(w.history.records)] = q
	w.post(p, q.from, q.actor, 2, 8, 0, isAnswer|isBurst)
}

// onGrant ends the request that a message answers.
func (w *world) onGrant(r int, e *wire.Envelope) {
	if q := w.grants[r]; q != nil && e.Kind == wire.Value {
		w.outcome(q, granted)
	}
}

// counted is the number of messages that count for the size of a mailbox.
func (p *proc) counted(actor int) (n int) {
	for _, m := range p.boxes[actor] {
		if m.wait == 0 && m.request == nil {
			n++
		}
	}
	return n
}

// auditWaits checks that mailboxes hold no more than there is credit for: the window, or two
// messages larger than half of it.
func (w *world) auditWaits(p *proc) {
	for actor := range p.boxes {
		held, most := map[*proc]int{}, map[*proc]int{}
		for _, m := range p.boxes[actor] {
			if m.wait > 0 && !w.history.records[m.record].overtaken {
				held[m.from] += m.wait
				most[m.from] = max(most[m.from], m.wait)
			}
		}
		for from, n := range held {
			if n > 2*max(w.waitWindow/2, most[from]) {
				w.fail("DEL-6: %d bytes of messages of %d wait in %s of %d", n, from.index, names[actor], p.index)
			}
		}
	}
}

// creditMutants lack a part of the credit of a mailbox.
func creditMutants() []mutant {
	return []mutant{
		{name: "no credit is needed to wait", credit: func(c *waitCredit) { c.used = 0 }},
		{name: "credit is granted before its turn", skip: 42_000, early: true},
		{name: "no credit is granted", silent: true},
		{name: "nobody notices a lost request", lost: true},
		{name: "a lost request counts as granted", skip: 91_000, credit: func(c *waitCredit) { c.lost = false }},
	}
}

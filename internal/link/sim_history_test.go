package link

import (
	"strconv"
	"time"

	"github.com/castnet-io/castnet/internal/wire"
)

// A history is all sent messages, all messages that entered a mailbox, and all fates. It knows
// nothing of links: it checks the promises (DEL-1 … DEL-6), message by message.
type history struct {
	records []record
	groups  []group
}

// record is a message. The messages of a sender to a receiver must enter in the order of the
// records.
type record struct {
	from, to      *proc
	sender, actor int
	size          int
	group         int
	void          bool // it was not sent
	wait          bool // by SendWait
	overtaken     bool // by a request for credit, behind a large message or while its sender waited for room
	entered       int
}

// group is messages that their sender does not tell apart.
type group struct {
	from    *proc
	sent    int // messages
	entered int // of them
	fates   int // that are not "delivered"
	known   int // of these: no handler runs it
}

// groupName is the text of a Mark.
func groupName(g int) string { return strconv.Itoa(g) }

func (h *history) group(p *proc) int {
	h.groups = append(h.groups, group{from: p})
	return len(h.groups) - 1
}

func (h *history) record(p, to *proc, sender, actor, size, g int) int {
	h.records = append(h.records, record{from: p, to: to, sender: sender, actor: actor, size: size, group: g})
	h.groups[g].sent++
	return len(h.records) - 1
}

func (h *history) void(r int) {
	h.records[r].void = true
	h.groups[h.records[r].group].sent--
}

// member is the record of a cast at a process; first is that of its first member.
func (h *history) member(first int, p *proc) int {
	for r := first; r >= 0 && r < len(h.records) && r < first+len(p.w.procs); r++ {
		if h.records[r].to == p && h.records[r].from == h.records[first].from {
			return r
		}
	}
	return first
}

// enter records that a message enters a mailbox.
func (h *history) enter(w *world, i int, p, from *proc, sender, actor int, e *wire.Envelope) {
	if i < 0 || i >= len(h.records) || h.records[i].void {
		w.fail("%d got message %d, which was not sent", p.index, i)
		return
	}
	r := &h.records[i]
	g := &h.groups[r.group]
	r.entered++
	g.entered++
	last := &p.last[from.index][sender*4+actor]
	switch {
	case r.to != p || r.from != from:
		w.fail("DEL-5: #%d of %d for %d entered a mailbox of %d as one of %d", i, r.from.index, r.to.index,
			p.index, from.index)
	case p.dead[from.index]:
		w.fail("DEL-5: #%d entered a mailbox of %d, which was told that %d is dead", i, p.index, from.index)
	case r.sender != sender || r.actor != actor || len(e.Body) != r.size || e.Body[len(e.Body)-1] != byte(i) &&
		e.Kind != wire.Cast && r.size > 8:
		w.fail("#%d is not what was sent: %d bytes of %d", i, len(e.Body), r.size)
	case r.entered > 1:
		w.fail("DEL-3: #%d entered twice", i)
	case i+1 <= *last:
		w.fail("DEL-3: #%d of %s for %s entered after #%d", i, names[sender], names[actor], *last-1)
	case g.known > g.sent-g.entered:
		w.fail("DEL-2: #%d entered, and its sender was told that it never would", i)
	}
	*last = i + 1
	w.counts.Entered++
}

// fate records a fate at the sender.
func (h *history) fate(w *world, p *proc, f *Fate) {
	id, err := strconv.Atoi(f.Mark.Type)
	if err != nil || id >= len(h.groups) || h.groups[id].from != p || f.Count < 1 {
		w.fail("a fate of nothing: %+v", f)
		return
	}
	if to := p.procOf(f.Peer); h.groups[id].sent > 0 || to != nil { // of a cast: each member has a group
		for r := range h.records {
			if h.records[r].group >= id && h.records[r].group < id+len(w.procs) && h.records[r].from == p &&
				h.records[r].to == to {
				id = h.records[r].group
				break
			}
		}
	}
	g := &h.groups[id]
	g.fates += f.Count
	w.counts.Fates[f.Reason] += uint64(f.Count)
	if f.Known {
		g.known += f.Count
		w.counts.Undeliverable += uint64(f.Count)
	} else {
		w.counts.Indeterminate += uint64(f.Count)
	}
	switch {
	case g.fates > g.sent:
		w.fail("DEL-1: %d fates of %d messages of group %d", g.fates, g.sent, id)
	case g.known > g.sent-g.entered:
		w.fail("DEL-2: told that %d of %d messages of group %d never enter, and %d have", g.known, g.sent,
			id, g.entered)
	}
}

// settled checks the messages of a process before a record: each message without a failed fate was
// delivered.
func (h *history) settled(w *world, p *proc, before int, when string) {
	for i := range h.records[:before] {
		r := &h.records[i]
		if g := &h.groups[r.group]; r.from == p && !r.void && g.sent-g.fates > g.entered {
			w.fail("DEL-1: %s, #%d to %d counts as delivered and has not entered: of group %d, %d were sent, %d "+
				"entered, %d have fates",
				when, i, r.to.index, r.group, g.sent, g.entered, g.fates)
			return
		}
	}
}

// sum counts the messages of surviving senders, and the delivered ones among them.
func (h *history) sum(n *counts) {
	for i := range h.groups {
		if g := &h.groups[i]; g.from.alive {
			n.Sent += uint64(g.sent)
			n.Delivered += uint64(g.sent - g.fates)
		}
	}
}

// counts are figures of many runs.
type counts struct {
	Seeds, Steps, Short                              uint64
	Virtual                                          time.Duration
	Sent, Entered, Handled, Refused, Skipped, Unmade uint64 // messages
	Delivered, Undeliverable, Indeterminate          uint64 // fates
	// members without a check by the cast, and with answers that acknowledge it
	Unlooked, Reached, Shared                             uint64
	Published, Casts, Pieces, NotMeant, Fenced, Malformed uint64 // packets
	Retransmitted, Beats, Duplicates, Gaps, Overrun       uint64
	Broken, Forgotten, Woken, GivenUp                     uint64
	Barriers, Audits, Pings                               uint64
	Fates, NotSent                                        [PeerClosed + 1]uint64
	Control                                               [wire.Resume + 1]uint64
	Faults                                                [faultKinds]uint64
}

package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// knownWithin is how long the hosts that are known may take to answer, before it is looked who there is.
const knownWithin = 200 * time.Millisecond

// inheritWithin is how long another gateway may take to say which hosts it knows.
const inheritWithin = 300 * time.Millisecond

// startWithin is how long after its first word a host hears what is asked of all.
const startWithin = time.Second

const maxHosts = 4096 // that are known

var errNotAllKnown = errors.New("it is not known which hosts there are")

// hosts knows the hosts, the dead ones of the last hour included (discovery.remember), and asks them what lives. Hosts
// say it when they start and stop, so those that are known are mostly all there are: who asks only them need not
// wait for more.
type hosts struct {
	*mesh.Net
	watcher  *presence.Watcher
	remember time.Duration

	mu    sync.Mutex // guards all below
	known map[subjects.HostID]*knownHost
	all   bool      // none is missing: nothing they said was lost since somebody looked
	lost  int       // how often they may not have been heard
	next  time.Time // when whoever asks who there is has that looked up anew
}

// knownHost is a host as this gateway sees it.
type knownHost struct {
	heard   time.Time       // last
	seen    bool            // it was heard by itself, or another gateway has: an event alone may be anybody's
	now     presence.Change // the last one
	left    bool            // it said goodbye
	missing bool            // it did not answer the last look
	unwatch func()
}

// isHere reports whether a host is worth asking.
func (h *knownHost) isHere() bool { return !h.missing && !h.left && h.now.State != presence.Dead }

// state is that of a host that others are told: silence is more than its watcher may know so far.
func (h *knownHost) state() (state presence.State, why string) {
	if h.missing && h.now.State == presence.Alive {
		return presence.Suspect, "it did not answer when all hosts were asked"
	}
	return h.now.State, h.now.Reason
}

func newHosts(net *mesh.Net, w *presence.Watcher) *hosts {
	return &hosts{Net: net, watcher: w, remember: config.DiscoveryRemember.Get(net.Config()), known: map[subjects.HostID]*knownHost{}}
}

// inherit takes over what another gateway knows, so that all of them give the same answer.
func (h *hosts) inherit(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inheritWithin)
	defer cancel()
	l, err := agent.KnownHosts(ctx, h.Bus(), h.Proc().Space())
	if err != nil {
		return // there is no other, or it cannot be asked
	}
	now := time.Now()
	for _, k := range l.Hosts {
		h.hear(k.ID, now.Add(-k.Silence), true)
	}
}

// hear notes that a host lived at a time, and watches it from then on.
func (h *hosts) hear(id subjects.HostID, at time.Time, seen bool) {
	h.mu.Lock()
	k := h.known[id]
	isNew := k == nil
	switch {
	case isNew && len(h.known) >= maxHosts:
		h.all = false
		h.mu.Unlock()
		return
	case isNew:
		k = &knownHost{heard: at, unwatch: func() {}}
		h.known[id] = k
	case at.After(k.heard):
		k.heard, k.left = at, false
	}
	k.seen = k.seen || seen
	h.mu.Unlock()
	if !isNew {
		return
	}
	unwatch := h.watcher.Watch([]subjects.HostID{id}, h.changed)
	h.mu.Lock()
	k.unwatch = unwatch
	gone := h.known[id] != k
	h.mu.Unlock()
	if gone { // forgotten meanwhile
		unwatch()
	}
}

// changed takes what the watcher has found out.
func (h *hosts) changed(c presence.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.known[c.Host]
	if k == nil {
		return
	}
	if heard := c.At.Add(-c.Silence); !c.Unheard {
		k.seen = true
		if c.State == presence.Alive {
			heard, k.missing = c.At, false
		}
		if heard.After(k.heard) {
			k.heard = heard
		}
	}
	k.now, k.left = c, c.Left
}

// forget drops the hosts that nobody needs to know any more: those that left in order, that nobody ever heard, that
// have been dead for too long, and that are back under another ID.
func (h *hosts) forget() {
	var unwatch []func()
	h.mu.Lock()
	back := map[string]time.Time{}
	for id, k := range h.known {
		if k.isHere() && k.now.State == presence.Alive && k.heard.After(back[id.Label()]) {
			back[id.Label()] = k.heard
		}
	}
	now := time.Now()
	for id, k := range h.known {
		dead := k.now.State == presence.Dead
		if k.left || dead && (!k.seen || now.Sub(k.heard) > h.remember || back[id.Label()].After(k.heard)) {
			delete(h.known, id)
			unwatch = append(unwatch, k.unwatch)
		}
	}
	h.mu.Unlock()
	for _, f := range unwatch { // without the lock: it waits for changed
		f()
	}
}

// here are the hosts that are worth asking, and whether these may be all.
func (h *hosts) here() (ids []subjects.HostID, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, k := range h.known {
		if k.isHere() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, subjects.HostID.Compare)
	return ids, h.all
}

// listing is all hosts that are known.
func (h *hosts) listing() agent.HostListing {
	h.forget()
	h.mu.Lock()
	defer h.mu.Unlock()
	l := agent.HostListing{All: h.all}
	now := time.Now()
	for id, k := range h.known {
		state, why := k.state()
		e := agent.KnownHost{ID: id, State: state.String()}
		if state != presence.Alive {
			e.Reason, e.Silence = why[:min(len(why), agent.MaxWhy)], max(0, now.Sub(k.heard))
		}
		l.Hosts = append(l.Hosts, e)
	}
	slices.SortFunc(l.Hosts, func(a, b agent.KnownHost) int { return a.ID.Compare(b.ID) })
	return l
}

// ages reports whether it is time to look who there is: who has died without a word is in the list until then.
func (h *hosts) ages() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Before(h.next) {
		return false
	}
	h.next = now.Add(minAge)
	return true
}

// list answers a client that wants to know which hosts there are (agent.HostList).
func (g *Gateway) list(m bus.Msg) {
	s, err := g.space.Parse(m.Subject)
	if err != nil || m.Reply == "" || !g.proc.MayAnswer(m.Reply, s.From) || g.admit(s.From) != nil {
		return // who asks asks the hosts all the same
	}
	body, err := wire.Marshal(g.hosts.listing())
	if err == nil {
		err = g.data.PublishMsg(bus.Msg{Subject: m.Reply, Data: body})
	}
	if err != nil {
		g.loud.Warn().Err(err).Msg("a client was not told which hosts there are")
	}
	if g.hosts.ages() {
		g.spawn(func(ctx context.Context) { _, _ = g.hosts.look(ctx) }) // else the next one does
	}
}

// Meshes asks every host, whether known or not.
func (h *hosts) Meshes(ctx context.Context) ([]mesh.MeshState, error) {
	ids, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	return h.MeshesOn(ctx, ids)
}

// Known asks the hosts that are known, if that may be all there are.
func (h *hosts) Known(ctx context.Context) ([]mesh.MeshState, error) {
	ids, all := h.here()
	if !all || len(ids) == 0 {
		return nil, errNotAllKnown
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	return h.MeshesOn(ctx, ids)
}

// look finds out which hosts there are. What they say meanwhile is newer.
func (h *hosts) look(ctx context.Context) (ids []subjects.HostID, err error) {
	began := time.Now()
	h.mu.Lock()
	lost := h.lost
	h.mu.Unlock()
	known, _ := h.here()
	found, err := agent.Hosts(ctx, h.Bus(), h.Proc().Space(), config.DiscoveryQuiet.Get(h.Config()), known...)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no host answers on %s in %s: start a hostd there", h.Bus().Control().URL(), h.Proc().Space())
	}
	answered := map[subjects.HostID]bool{}
	for _, info := range found {
		ids, answered[info.ID] = append(ids, info.ID), true
		h.hear(info.ID, time.Now(), true)
	}
	h.mu.Lock()
	for id, k := range h.known {
		k.missing = k.heard.Before(began.Add(-startWithin)) && !answered[id]
	}
	h.all = h.lost == lost && len(h.known) < maxHosts
	h.mu.Unlock()
	h.forget()
	return ids, nil
}

// listen takes the word that a host has started or ends.
func (h *hosts) listen(space subjects.Space) func(bus.Msg) {
	return func(m bus.Msg) {
		e, err := actor.OpenEvent(space, m)
		if err != nil || e.Type != agent.HostType {
			return
		}
		id, err := subjects.ParseHostID(e.Mesh)
		if err != nil {
			return
		}
		if !e.Terminal() {
			h.hear(id, time.Now(), false)
			return
		}
		h.mu.Lock()
		if k := h.known[id]; k != nil {
			k.left = true
		}
		h.mu.Unlock()
		h.forget()
	}
}

// stir takes what became of the connections: what was said meanwhile is lost.
func (h *hosts) stir(s bus.State) {
	if s.Kind == bus.Disconnected || s.Kind == bus.Reconnected {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = false
		h.lost++
	}
}

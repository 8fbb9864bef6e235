package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// knownHostsTimeout bounds the wait for the known hosts, before a search for all hosts.
const knownHostsTimeout = 200 * time.Millisecond

// inheritTimeout bounds the wait for another gateway's list of hosts.
const inheritTimeout = 300 * time.Millisecond

// startupGrace is the time from a host's first message until it receives requests to all hosts.
const startupGrace = time.Second

// departedKept is the time for which a departed host is remembered: an earlier answer may arrive
// after its goodbye. It exceeds any search for hosts.
const departedKept = time.Minute

const maxKnownHosts = 4096 // that are known

var errHostsIncomplete = errors.New("the list of hosts is not complete")

// hosts tracks the hosts, recently dead ones included (discovery.dead-host-retention), and asks
// them for their meshes. Each heartbeat makes its host known, so the known ones are mostly
// complete, and a query of them need not wait for more.
type hosts struct {
	net      *mesh.Net
	watcher  *presence.Watcher
	remember time.Duration

	mu           sync.Mutex // guards all below
	known        map[subjects.HostID]*knownHost
	complete     bool      // no host is missing: no message of theirs was lost since the last scan
	missedEvents int       // number of gaps in which messages of hosts may be lost
	nextScan     time.Time // after which a request for the hosts starts a new search
}

// knownHost is a host as this gateway sees it.
type knownHost struct {
	lastHeard time.Time       // here or by another gateway
	change    presence.Change // the last one
	missing   bool            // it did not answer the last look
	unwatch   func()
}

// mayBeAlive reports whether a host has not left and is not dead.
func (h *knownHost) mayBeAlive() bool { return h.change.State != presence.Dead }

// isReachable reports whether a host is worth asking.
func (h *knownHost) isReachable() bool { return !h.missing && h.mayBeAlive() }

// state is the state of a host for others. It includes silence that the watcher may not have
// noticed.
func (h *knownHost) state() (state presence.State, why string) {
	if h.missing && h.change.State == presence.Alive {
		return presence.Suspect, "it did not answer the last search for hosts"
	}
	return h.change.State, h.change.Reason
}

func newHosts(n *mesh.Net) (h *hosts, err error) {
	h = &hosts{
		net: n, remember: config.DiscoveryDeadHostRetention.Get(n.Config()),
		known: map[subjects.HostID]*knownHost{},
	}
	h.watcher, err = presence.New(n.Proc())
	if err == nil {
		h.watcher.Discover(func(id subjects.HostID) { h.noteAlive(id, time.Now()) })
	}
	return h, err
}

// copyFromPeer takes over another gateway's list, so that all gateways give the same answer.
func (h *hosts) copyFromPeer(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, inheritTimeout)
	defer cancel()
	l, err := agent.ListKnownHosts(ctx, h.net.Bus(), h.net.Proc().Space())
	if err != nil {
		return // there is no other, or it cannot be asked
	}
	now := time.Now()
	for _, k := range l.Hosts {
		first := presence.Change{NeverHeard: true}
		if k.State == agent.HostDead {
			first.State, first.Reason = presence.Dead, k.Reason
		}
		h.note(k.ID, now.Add(-k.Silence), first)
	}
}

// noteAlive records that a host lived at a time, and watches it from then on.
func (h *hosts) noteAlive(id subjects.HostID, at time.Time) {
	h.note(id, at, presence.Change{NeverHeard: true})
}

// note records that a host lived at a time. It watches an unknown one from then on; first is its
// state until the watcher knows more.
func (h *hosts) note(id subjects.HostID, at time.Time, first presence.Change) {
	h.mu.Lock()
	k := h.known[id]
	isNew := k == nil
	switch {
	case isNew && len(h.known) >= maxKnownHosts:
		h.complete = false
		h.mu.Unlock()
		return
	case isNew:
		k = &knownHost{lastHeard: at, change: first, unwatch: func() {}}
		h.known[id] = k
	case at.After(k.lastHeard):
		k.lastHeard = at
	}
	h.mu.Unlock()
	if !isNew {
		return
	}
	unwatch := h.watcher.Watch([]subjects.HostID{id}, h.onChange)
	h.mu.Lock()
	k.unwatch = unwatch
	gone := h.known[id] != k
	h.mu.Unlock()
	if gone { // forgotten meanwhile
		unwatch()
	}
}

// onChange applies a change from the watcher.
func (h *hosts) onChange(c presence.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.known[c.Host]
	if k == nil || c.NeverHeard && k.change.State == presence.Dead { // another gateway saw it die
		return
	}
	if heard := c.At.Add(-c.Silence); !c.NeverHeard {
		if c.State == presence.Alive {
			heard = c.At
			k.missing = false
		}
		if heard.After(k.lastHeard) {
			k.lastHeard = heard
		}
	}
	k.change = c
}

// prune drops hosts that left in order, that have been dead for too long, or that are back under
// another ID.
func (h *hosts) prune() {
	var unwatch []func()
	h.mu.Lock()
	back := map[string]time.Time{}
	for id, k := range h.known {
		if k.isReachable() && k.change.State == presence.Alive && k.lastHeard.After(back[id.Label()]) {
			back[id.Label()] = k.lastHeard
		}
	}
	now := time.Now()
	for id, k := range h.known {
		over := k.change.State == presence.Dead &&
			(now.Sub(k.lastHeard) > h.remember || back[id.Label()].After(k.lastHeard))
		if k.change.Graceful {
			over = now.Sub(k.change.At) > departedKept
		}
		if over {
			delete(h.known, id)
			unwatch = append(unwatch, k.unwatch)
		}
	}
	h.mu.Unlock()
	for _, f := range unwatch { // without the lock: it waits for changed
		f()
	}
}

// reachable are the hosts worth a query, and whether they may be all.
func (h *hosts) reachable() (ids []subjects.HostID, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.knownIDs((*knownHost).isReachable), h.complete
}

// expected are the hosts of the next search, also those without an answer to the last one: a slow
// host needs more than the time for unknown hosts.
func (h *hosts) expected() []subjects.HostID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.knownIDs((*knownHost).mayBeAlive)
}

// knownIDs returns the IDs of some known hosts. The caller holds the lock.
func (h *hosts) knownIDs(want func(*knownHost) bool) (ids []subjects.HostID) {
	for id, k := range h.known {
		if want(k) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, subjects.HostID.Compare)
	return ids
}

// gateways are the gateways that hosts announce which may be alive.
func (h *hosts) gateways() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string]bool{}
	for _, k := range h.known {
		if id := k.change.Gateway; id.IsValid() && k.mayBeAlive() {
			out[id.String()] = true
		}
	}
	return out
}

// haveOnlyGateway reports whether no host that may be alive has, or may have, another gateway.
func (h *hosts) haveOnlyGateway(self string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.complete {
		return false
	}
	for _, k := range h.known {
		other := k.change.Gateway
		if k.mayBeAlive() && (k.change.NeverHeard || other.IsValid() && other.String() != self) {
			return false
		}
	}
	return true
}

// listing is all known hosts.
func (h *hosts) listing() agent.HostList {
	h.prune()
	h.mu.Lock()
	defer h.mu.Unlock()
	l := agent.HostList{Complete: h.complete}
	now := time.Now()
	for id, k := range h.known {
		if k.change.Graceful {
			continue
		}
		state, why := k.state()
		e := agent.KnownHost{ID: id, State: state.String()}
		if state != presence.Alive {
			e.Reason = why[:min(len(why), agent.MaxReason)]
			e.Silence = max(0, now.Sub(k.lastHeard))
		}
		l.Hosts = append(l.Hosts, e)
	}
	slices.SortFunc(l.Hosts, func(a, b agent.KnownHost) int { return a.ID.Compare(b.ID) })
	return l
}

// isScanDue reports whether a search for hosts is due. Until then the list keeps hosts that died
// silently.
func (h *hosts) isScanDue() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if now.Before(h.nextScan) {
		return false
	}
	h.nextScan = now.Add(minAge)
	return true
}

// serveHostList answers a client's request for the hosts (agent.HostList).
func (g *Gateway) serveHostList(m bus.Msg) {
	s, err := g.space.Parse(m.Subject)
	if err != nil || m.Reply == "" || !g.proc.Foreign().MayAnswer(m.Reply, s.Sender) ||
		g.admit(s.Sender) != nil {
		return // the client asks the hosts as well
	}
	body, err := wire.Marshal(g.hosts.listing())
	if err == nil {
		err = g.data.PublishMsg(bus.Msg{Subject: m.Reply, Data: body})
	}
	if err != nil {
		g.sampledLog.Warn().Err(err).Msg("cannot send the list of hosts")
	}
	if g.hosts.isScanDue() {
		g.spawn(func(ctx context.Context) { _, _, _ = g.hosts.scan(ctx) }) // else the next one does
	}
}

// Inventory asks every host, whether known or not. It holds the known hosts that did not answer.
func (h *hosts) Inventory(ctx context.Context) (inv mesh.Inventory, err error) {
	ids, silent, err := h.scan(ctx)
	if err != nil {
		return inv, err
	}
	inv.Meshes, err = h.net.MeshesOn(ctx, ids)
	inv.Hosts = silent
	for _, id := range ids {
		inv.Hosts = append(inv.Hosts, mesh.HostState{HostInfo: agent.HostInfo{ID: id, Label: id.Label()},
			State: agent.HostAlive})
	}
	return inv, err
}

// KnownMeshes is an Inventory of the known hosts alone, if they may be all.
func (h *hosts) KnownMeshes(ctx context.Context) (inv mesh.Inventory, err error) {
	ids, all := h.reachable()
	if !all || len(ids) == 0 {
		return inv, errHostsIncomplete
	}
	ctx, cancel := context.WithTimeout(ctx, knownHostsTimeout)
	defer cancel()
	inv.Meshes, err = h.net.MeshesOn(ctx, ids)
	return inv, err
}

// scan searches for hosts. Their own later messages take precedence. silent are the known hosts
// that did not answer.
func (h *hosts) scan(ctx context.Context) (ids []subjects.HostID, silent []mesh.HostState, err error) {
	began := time.Now()
	h.mu.Lock()
	lost := h.missedEvents
	h.mu.Unlock()
	found, _, err := agent.DiscoverHosts(ctx, h.net.Bus(), h.net.Proc().Space(),
		config.DiscoveryQuietPeriod.Get(h.net.Config()), h.expected()...)
	if err != nil {
		return nil, nil, err
	}
	found, failed := agent.ConfirmHosts(ctx, h.net.Proc(), found)
	if len(found) == 0 && len(failed) > 0 {
		all := errors.Join(slices.Collect(maps.Values(failed))...)
		return nil, nil, fmt.Errorf("hosts answer a search, but their agents do not answer: %w", all)
	}
	if len(found) == 0 {
		return nil, nil, fmt.Errorf("no host answers on %s in %s: start a hostd there", h.net.Bus().Control().URL(),
			h.net.Proc().Space())
	}
	answered := map[subjects.HostID]bool{}
	for _, info := range found {
		ids = append(ids, info.ID)
		answered[info.ID] = true
		h.noteAlive(info.ID, began) // it may have left since it answered
	}
	h.mu.Lock()
	for id, k := range h.known {
		k.missing = k.lastHeard.Before(began.Add(-startupGrace)) && !answered[id]
	}
	h.complete = h.missedEvents == lost && len(h.known) < maxKnownHosts
	h.mu.Unlock()
	for _, k := range h.listing().Hosts {
		if answered[k.ID] {
			continue
		}
		if k.State == agent.HostAlive {
			k.State, k.Reason = agent.HostSuspect, "it did not answer"
		}
		info := agent.HostInfo{ID: k.ID, Label: k.ID.Label()}
		silent = append(silent, mesh.HostState{HostInfo: info, State: k.State, Reason: k.Reason,
			Silence: k.Silence})
	}
	return ids, silent, nil
}

// onBusState applies a change of the connections: messages in between are lost.
func (h *hosts) onBusState(s bus.State) {
	if s.Kind == bus.Disconnected || s.Kind == bus.Reconnected {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.complete = false
		h.missedEvents++
	}
}

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// knownWithin is how long the hosts that are known may take to answer, before it is looked who there is.
const knownWithin = 200 * time.Millisecond

// startWithin is how long after its first word a host hears what is asked of all.
const startWithin = time.Second

const maxHosts = 4096 // that are known

var errNotAllKnown = errors.New("it is not known which hosts there are")

// hosts asks hosts what lives. They say it when they start and stop, so those that are known are mostly all
// there are: who asks only them need not wait for more.
type hosts struct {
	*mesh.Net

	mu    sync.Mutex                    // guards all below
	heard map[subjects.HostID]time.Time // when last
	all   bool                          // none is missing: nothing they said was lost since somebody looked
	lost  int                           // how often they may not have been heard
	next  time.Time                     // when whoever asks who there is has that looked up anew
}

func newHosts(net *mesh.Net) *hosts {
	return &hosts{Net: net, heard: map[subjects.HostID]time.Time{}}
}

// known are the hosts that were heard of, and whether these may be all.
func (h *hosts) known() ([]subjects.HostID, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Keys(h.heard), subjects.HostID.Compare), h.all
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
	ids, all := g.hosts.known()
	if !all {
		ids = nil
	}
	body, err := json.Marshal(ids)
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
	ids, all := h.known()
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
	known, _ := h.known()
	found, err := agent.Hosts(ctx, h.Bus(), h.Proc().Space(), config.DiscoveryQuiet.Get(h.Config()), known...)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no host answers on %s in %s: start a hostd there", h.Bus().Control().URL(), h.Proc().Space())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.heard, func(_ subjects.HostID, at time.Time) bool { return at.Before(began.Add(-startWithin)) })
	for _, info := range found {
		ids = append(ids, info.ID)
		h.heard[info.ID] = time.Now()
	}
	h.all = h.lost == lost && len(h.heard) <= maxHosts
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
		h.mu.Lock()
		defer h.mu.Unlock()
		switch {
		case e.Terminal():
			delete(h.heard, id)
		case len(h.heard) < maxHosts:
			h.heard[id] = time.Now()
		default:
			h.all = false
		}
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

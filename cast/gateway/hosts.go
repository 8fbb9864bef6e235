package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
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
}

func newHosts(net *mesh.Net) *hosts {
	return &hosts{Net: net, heard: map[subjects.HostID]time.Time{}}
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
	h.mu.Lock()
	ids := slices.SortedFunc(maps.Keys(h.heard), subjects.HostID.Compare)
	all := h.all
	h.mu.Unlock()
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
	found, err := h.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.heard, func(_ subjects.HostID, at time.Time) bool { return at.Before(began.Add(-startWithin)) })
	for _, info := range found.Infos() {
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

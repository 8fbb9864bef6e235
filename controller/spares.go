package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// The controller asks spare hosts whether they accept procs: when the mesh starts, with each lease
// renewal, and before a spare replaces a drained host. It skips spares that are gone or accept no
// procs, and uses the one with the fewest procs. Spares are not reserved; other owners may use
// them. Among equals the choice is random, so that owners with common spares spread over them.

// spareTimeout bounds the wait for a spare host's answer.
const spareTimeout = 2 * time.Second

// spareInfo is a spare host's reply; unusable is the reason against its use now.
type spareInfo struct {
	host     subjects.HostID
	unusable error
	procs    int // on the host
}

// sparePool is the hosts without ranks of the mesh, as they last answered.
type sparePool struct {
	hosts    []subjects.HostID
	unusable map[subjects.HostID]error // the reason against the use of a spare
	load     map[subjects.HostID]int   // procs on a spare
}

func newSparePool(hosts []subjects.HostID) sparePool {
	return sparePool{slices.Clone(hosts), map[subjects.HostID]error{}, map[subjects.HostID]int{}}
}

// note records the reply of a spare host.
func (p *sparePool) note(h spareInfo) {
	delete(p.unusable, h.host)
	if h.unusable != nil {
		p.unusable[h.host] = h.unusable
	}
	p.load[h.host] = h.procs
}

// take removes the usable host with the fewest procs that is not in trouble, and returns it.
func (p *sparePool) take(troubled map[subjects.HostID]presence.Change) (host subjects.HostID, ok bool) {
	best := -1
	for i, spare := range p.hosts {
		_, trouble := troubled[spare]
		if !trouble && p.unusable[spare] == nil && (best < 0 || p.load[spare] < p.load[p.hosts[best]]) {
			best = i
		}
	}
	if best < 0 {
		return host, false
	}
	host = p.hosts[best]
	p.hosts = slices.Delete(p.hosts, best, best+1)
	return host, true
}

// shuffled returns hosts in an order that differs between owners.
func shuffled(hosts []subjects.HostID) []subjects.HostID {
	hosts = slices.Clone(hosts)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// replaceHost replaces a host by a healthy spare. It returns false if there is none.
func (st *state) replaceHost(index int) bool {
	spare, ok := st.spares.take(st.hosts)
	if ok {
		st.spec.Procs.Hosts = slices.Clone(st.spec.Procs.Hosts)
		st.spec.Procs.Hosts[index] = spare
	}
	return ok
}

// askSpares asks all remaining spare hosts concurrently, then calls then.
func (c *controller) askSpares(ctx *actor.Context, then func(*actor.Context)) {
	p := ctx.Proc()
	spares := slices.Clone(c.spares.hosts)
	pending := len(spares)
	if pending == 0 {
		then(ctx)
		return
	}
	for _, spare := range spares {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			work, cancel := context.WithTimeout(work, spareTimeout)
			defer cancel()
			info, err := agent.Info.Call(work, hostAgent(p, spare), actor.None{})
			if err == nil && info.Mode != agent.ModeOpen {
				err = fmt.Errorf("host %s accepts no procs: it is %s", spare, info.Mode)
			}
			return func(ctx *actor.Context) {
				c.handle(ctx, spareInfo{spare, err, info.Procs})
				pending--
				if pending == 0 {
					then(ctx)
				}
			}
		})
	}
}

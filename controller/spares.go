package controller

import (
	"context"
	"errors"
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
// procs, and uses the one with the fewest procs, a silent one last. Spares are not reserved; other
// owners may use them. Among equals the choice is random, so that owners with common spares spread
// over them.

// spareTimeout bounds the wait for a spare host's answer.
const spareTimeout = 2 * time.Second

// spareInfo is a spare host's reply; unusable is the reason against its use now. With
// context.DeadlineExceeded the host is silent.
type spareInfo struct {
	host     subjects.HostID
	unusable error
	procs    int // on the host
}

// sparePool is the hosts without ranks of the mesh, as they last answered.
type sparePool struct {
	hosts    []subjects.HostID
	unusable map[subjects.HostID]error // the reason against the use of a spare
	silent   map[subjects.HostID]bool  // did not answer last time: its last reply counts
	load     map[subjects.HostID]int   // procs on a spare
}

func newSparePool(hosts []subjects.HostID) sparePool {
	return sparePool{slices.Clone(hosts), map[subjects.HostID]error{}, map[subjects.HostID]bool{},
		map[subjects.HostID]int{}}
}

// note records the reply of a spare host, or that there is none.
func (p *sparePool) note(h spareInfo) {
	p.silent[h.host] = errors.Is(h.unusable, context.DeadlineExceeded)
	if p.silent[h.host] {
		return
	}
	delete(p.unusable, h.host)
	if h.unusable != nil {
		p.unusable[h.host] = h.unusable
	}
	p.load[h.host] = h.procs
}

// take removes the usable host with the fewest procs, and returns it. Dead hosts are not usable.
// One that is silent or in trouble comes last.
func (p *sparePool) take(troubles map[subjects.HostID]presence.Change) (host subjects.HostID, ok bool) {
	best, bestDoubtful := -1, false
	for i, spare := range p.hosts {
		trouble, troubled := troubles[spare]
		if p.unusable[spare] != nil || troubled && trouble.State == presence.Dead {
			continue
		}
		doubtful := troubled || p.silent[spare]
		better := best < 0 || bestDoubtful && !doubtful ||
			doubtful == bestDoubtful && p.load[spare] < p.load[p.hosts[best]]
		if better {
			best, bestDoubtful = i, doubtful
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

// replaceHost replaces a host by a spare. It returns false if there is none.
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

package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Spare hosts are asked whether they would take procs: when the mesh begins, with each renewal of leases, and before
// one of them is to take the place of a host that is drained. One that is not there, or takes none, is passed over. Of
// the others the one with the fewest procs is used: nobody reserves a host, and those of other owners may be there already.
// Of those with equally many it is any: owners that share spare hosts and need one at the same moment spread over them.

// spareWithin is how long a spare host has to say that it is there.
const spareWithin = 2 * time.Second

// spareIs is what a spare host says; why: it cannot be used now.
type spareIs struct {
	host  subjects.HostID
	why   error
	procs int // that it has
}

func (st *state) spareIs(h spareIs) {
	if delete(st.unfit, h.host); h.why != nil {
		st.unfit[h.host] = h.why
	}
	st.load[h.host] = h.procs
}

// anyOrder is some order of hosts, which differs between owners.
func anyOrder(hosts []subjects.HostID) []subjects.HostID {
	hosts = slices.Clone(hosts)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// replace puts a spare host that is not known to be in trouble in the place of another, and reports whether there is one.
func (st *state) replace(index int) bool {
	best := -1
	for i, spare := range st.spares {
		_, trouble := st.hosts[spare]
		if !trouble && st.unfit[spare] == nil && (best < 0 || st.load[spare] < st.load[st.spares[best]]) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	st.spec.Procs.Hosts = slices.Clone(st.spec.Procs.Hosts)
	st.spec.Procs.Hosts[index] = st.spares[best]
	st.spares = slices.Delete(st.spares, best, best+1)
	return true
}

// askSpares asks every spare host that is left, all at the same time, and goes on once each has had its time.
func (c *controller) askSpares(ctx *actor.Context, then func(*actor.Context)) {
	p, spares := ctx.Proc(), slices.Clone(c.spares)
	pending := len(spares)
	if pending == 0 {
		then(ctx)
		return
	}
	for _, spare := range spares {
		ctx.Go(func(work context.Context) func(*actor.Context) {
			work, cancel := context.WithTimeout(work, spareWithin)
			defer cancel()
			info, err := agent.Info.Call(work, hostAgent(p, spare), actor.None{})
			if err == nil && info.Mode != agent.Open {
				err = fmt.Errorf("host %s takes no procs: it is %s", spare, info.Mode)
			}
			return func(ctx *actor.Context) {
				c.hear(ctx, spareIs{spare, err, info.Procs})
				if pending--; pending == 0 {
					then(ctx)
				}
			}
		})
	}
}

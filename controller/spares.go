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

func (st *state) noteSpare(h spareInfo) {
	delete(st.unusable, h.host)
	if h.unusable != nil {
		st.unusable[h.host] = h.unusable
	}
	st.load[h.host] = h.procs
}

// shuffled returns hosts in an order that differs between owners.
func shuffled(hosts []subjects.HostID) []subjects.HostID {
	hosts = slices.Clone(hosts)
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	return hosts
}

// replaceHost replaces a host by a healthy spare. It returns false if there is none.
func (st *state) replaceHost(index int) bool {
	best := -1
	for i, spare := range st.spares {
		_, trouble := st.hosts[spare]
		if !trouble && st.unusable[spare] == nil && (best < 0 || st.load[spare] < st.load[st.spares[best]]) {
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

// askSpares asks all remaining spare hosts concurrently, then calls then.
func (c *controller) askSpares(ctx *actor.Context, then func(*actor.Context)) {
	p := ctx.Proc()
	spares := slices.Clone(c.spares)
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

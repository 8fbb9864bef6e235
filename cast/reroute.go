package cast

import (
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// A silent folder without a known death holds back the answers below it. So before its
// parent gives up, the parent asks the processes below to answer past the silent one. By then a
// working folder would have sent its answers.
//
//	below gives up ──▶ above asks around the silent ──▶ above gives up, with what came
//	               ¼                                ¾ of a margin

// safetyMargin is the time by which a process gives up before its parent, so that its contribution
// arrives in time.
func safetyMargin(ttl time.Duration) time.Duration { return min(ttl/8, 500*time.Millisecond) }

// rerouteLead is the time before giving up at which a process reroutes around silent ones.
func rerouteLead(ttl time.Duration) time.Duration { return safetyMargin(ttl) * 3 / 4 }

// timeout is the waiting time of a process.
func (fs *aggregations) timeout(j job) time.Duration {
	return j.ttl - time.Duration(len(j.ancestors)+1)*safetyMargin(j.ttl)
}

// canReroute reports whether others may fold for this process, and it has not asked around them.
func (f *aggregation) canReroute() bool {
	return !f.rerouted && f.job.hostEnd < f.job.hi
}

// rerouteWait is the wait until the reroute.
func (f *aggregation) rerouteWait() time.Duration {
	if f.canReroute() {
		return rerouteLead(f.job.ttl)
	}
	return 0
}

// silentNodes are the silent ones of some nodes, and the processes that answer through them.
func silentNodes(t tree, nodes []node, waits func(view int) bool) (views []int, below [][]subjects.ProcID) {
	for _, n := range nodes {
		if !waits(n.first) {
			continue
		}
		var ids []subjects.ProcID
		for _, view := range t.childProcesses(n) {
			if waits(view) {
				ids = append(ids, t.aggregatorAt(view))
			}
		}
		if len(ids) > 0 {
			views = append(views, n.first)
			below = append(below, ids)
		}
	}
	return views, below
}

// requestReroute has those below silent nodes answer past them.
func requestReroute(p *actor.Proc, cast string, views []int, below [][]subjects.ProcID) {
	for i, view := range views {
		ext := encodeReply(replyHeader{Cast: cast, Folded: true, RerouteRank: view + 1})
		for _, id := range below[i] {
			p.Casts().SendAnswer(routerActor, id.Actor(routerActor).Port(foldPort), actor.Answer{}, ext)
		}
	}
}

// reroute asks around the silent nodes under this one, once. The lock is held.
func (fs *aggregations) reroute(f *aggregation) {
	f.rerouted, f.state.rerouted = true, true
	f.timer.Reset(rerouteLead(f.job.ttl))
	f.drainLocal()
	cast := f.job.castID
	views, below := silentNodes(f.job.tree, f.job.tree.nodes(f.job.hostEnd, f.job.hi), f.state.isPending)
	fs.wg.Go(func() { requestReroute(fs.p, cast, views, below) })
}

// handleDeclined reroutes the answers sent to a folder that declined them.
func (fs *aggregations) handleDeclined(cast string, id subjects.ProcID) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.active[cast]; f != nil && f.done && f.sentTo == id && f.ext != nil {
		fs.wg.Go(func() { fs.forward(f) })
	}
}

// handleReroute reroutes this process's answers around the silent process of a rank.
func (fs *aggregations) handleReroute(cast string, view int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.active[cast]
	if f == nil || !slices.Contains(f.job.ancestors, view) {
		return
	}
	id := f.job.tree.aggregatorAt(view)
	if !f.done && !slices.Contains(f.bypassed, id) {
		f.bypassed = append(f.bypassed, id)
	} else if f.done && f.sentTo == id && f.ext != nil {
		fs.wg.Go(func() { fs.forward(f) })
	}
}

// reroute asks around the silent nodes under home.
func (a *operation) reroute() {
	a.rerouted = true
	views, below := silentNodes(a.replyTree, a.replyTree.roots(a.request.mode), a.isPending)
	requestReroute(a.p, a.replyPort, views, below)
}

// scheduleReroute schedules the reroute after the processes below have given up.
func (a *operation) scheduleReroute(ttl time.Duration) {
	if ttl == 0 {
		return
	}
	t := time.AfterFunc(ttl-rerouteLead(ttl), func() { a.enqueue(func() { a.rerouteDue = true }) })
	a.release = append(a.release, func() { t.Stop() })
}

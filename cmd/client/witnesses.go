package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// witnesses are those who know something of a mesh, and what they said.
type witnesses struct {
	net    *mesh.Net
	desc   agent.Mesh
	there  []subjects.HostID // hosts that live
	states map[int]agent.State
	lease  time.Duration
	report controller.Report
	system string             // of a world: the system controller
	world  *worlds.WorldState // of a world, in place of the report
	silent error              // why there is no report
	actors []actorRecord
	listed bool // every proc has said which actors it has
}

func (w *witnesses) askOwner(ctx context.Context) {
	if w.desc.World != nil {
		w.silent = w.askSystem(ctx)
		return
	}
	owner := actor.RefOf[agent.Agent](w.desc.Owner).Via(w.net.Proc())
	w.report, w.silent = controller.Health.Call(ctx, owner, actor.None{})
}

// askSystem asks the system controller for a world, which is its own while it has the same mesh.
func (w *witnesses) askSystem(ctx context.Context) error {
	ref, err := worlds.Find(ctx, w.net.Proc())
	if err != nil {
		return err
	}
	w.system = ref.ID().String()
	name := w.desc.World.World
	now, err := worlds.Snap.Call(ctx, ref, worlds.Filter{Worlds: []string{name}})
	if err != nil {
		return err
	}
	for _, s := range now.Worlds {
		if s.Mesh == w.desc.ID.String() {
			w.world = &s
			return nil
		}
	}
	return &worlds.NotFoundError{What: "world " + name + " of mesh " + w.desc.ID.String()}
}

// askActors asks the procs what runs there; those that do not say are told of by others.
func (w *witnesses) askActors(ctx context.Context, m mesh.MeshState) {
	if m.Alive() {
		p := place{whole: m.Procs, procs: m.Procs, base: w.desc.Extent, region: w.desc.Extent.Region()}
		var err error
		w.actors, err = actorRecords(ctx, p, false)
		w.listed = err == nil
	}
}

// askHosts asks each host that is there for all it knows of the mesh: in a list of everything the output of procs
// is left out. Of a rank that two hosts know, the newest generation counts.
func (w *witnesses) askHosts(ctx context.Context, known []agent.State) {
	answers := make([][]agent.State, len(w.there)+1)
	answers[len(w.there)] = known // where a host has ended meanwhile
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64)
	for i, h := range w.there {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answers[i], _ = agent.Get.Call(ctx, agent.Of(h.Proc()).Via(w.net.Proc()), agent.Query{ID: w.desc.ID.String()})
		})
	}
	wg.Wait()
	w.states = map[int]agent.State{}
	for _, s := range slices.Concat(answers...) {
		if had, is := w.states[s.Rank]; !is || s.Gen > had.Gen {
			w.states[s.Rank] = s
		}
		if s.Lease > 0 && (w.lease == 0 || s.Lease < w.lease) {
			w.lease = s.Lease
		}
	}
}

// view puts together what was said: the owner's word goes first.
func (w *witnesses) view() meshView {
	if w.silent == nil && w.world == nil {
		w.desc = w.report.Procs
	}
	if w.world != nil {
		w.seat()
	}
	r := w.report
	v := meshView{
		Mesh: w.desc.ID.String(), Label: cmp.Or(r.Name, w.desc.ID.Label()), Extent: w.desc.Extent.String(), Ranks: w.desc.Extent.NumRanks(),
		Program: w.desc.Command.Path, Policy: r.Policy.String(), base: w.desc.Extent, perHost: w.desc.PerHost, Failures: []failure{}, Later: []laterRank{}, Actors: []actorView{},
		Owner: ownerView{
			ID: w.desc.Owner.String(), Answers: w.silent == nil, Lease: r.Lease, Subscribers: r.Subscribers, Restarts: r.Restarts,
			Stalls: r.Stalls, Spares: r.Spares,
		},
	}
	v.Hosts = w.hosts()
	statuses := w.statuses()
	v.Phase, v.Statuses = phaseOf(statuses).String(), runsOf(v.base, statuses)
	if w.desc.World != nil {
		v.Owner.ID = cmp.Or(w.system, "the system controller")
	}
	switch {
	case w.silent != nil:
		v.Policy, v.Owner.Why, v.Lease = "", why(w.silent), w.lease
	case w.world != nil:
		v.Policy = "a proc that has ended is not started again; its world is evicted (world.eviction)"
		v.World = &worldView{w.world.Status, w.world.Reason, w.world.For, w.world.Ending}
	default:
		v.Owner.Since, v.Phase = &r.Since, r.Phase.String()
	}
	for _, l := range r.Later {
		v.Later = append(v.Later, laterRank{l, pointOf(v.base, l.Rank), statuses[l.Rank].Phase.String()})
	}
	v.Failures = w.failures(statuses)
	v.Actors = w.actorViews()
	if w.listed {
		v.NoActors = w.withoutActors(statuses)
	}
	return v
}

// why is an error without the address of who was asked.
func why(err error) string {
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Text != "" {
		return e.Text
	}
	return err.Error()
}

// seat puts the hosts of a world in their places, also those that have created nothing.
func (w *witnesses) seat() {
	w.desc.Hosts = slices.Clone(w.desc.Hosts)
	for _, h := range w.world.Hosts {
		if h.Rank < len(w.desc.Hosts) && h.Count > 0 {
			w.desc.Hosts[h.Rank] = h.ID
		}
	}
}

// ailing is why procs of a world have come to nothing, by rank: their hosts need not know.
func (w *witnesses) ailing() map[int]string {
	why := map[int]string{}
	if w.world != nil {
		for _, p := range w.world.Procs {
			if p.Health != worlds.Alive {
				why[int(p.ID.Rank)] = strings.TrimPrefix(p.Reason, agent.Failed.String()+": ")
			}
		}
	}
	return why
}

// noHost is why a rank of a world does not exist that is nobody's to run.
const noHost = "no host has it"

// statuses is how each rank is, as its owner says, or else its host; who can say nothing of it leaves it unknown.
func (w *witnesses) statuses() map[int]agent.Status {
	by, ailing := map[int]agent.Status{}, w.ailing()
	for rank := range w.desc.Extent.NumRanks() {
		s, is := w.states[rank]
		if by[rank] = s.Status; is {
			continue
		}
		h, reason, why := w.host(rank), "its host %s is silent", ailing[rank]
		switch there := slices.Contains(w.there, h); {
		case !h.IsValid():
			by[rank] = agent.Status{Phase: agent.NotExist, Reason: noHost}
			continue
		case why != "":
			by[rank] = agent.Status{Phase: agent.Failed, Reason: why}
			continue
		case there && w.world != nil:
			by[rank] = agent.Status{Phase: agent.NotExist, Reason: fmt.Sprintf("its host %s has not started it", h.Label())}
			continue
		case there:
			reason = "its host %s knows nothing of it any more"
		}
		by[rank] = agent.Status{Phase: agent.Unknown, Reason: fmt.Sprintf(reason, h.Label())}
	}
	if w.silent == nil && w.world == nil {
		w.report.Statuses.Each(len(by), func(rank int, s agent.Status) { by[rank] = s })
	}
	return by
}

func (w *witnesses) host(rank int) subjects.HostID { return w.desc.Hosts[rank/w.desc.PerHost] }

// hosts are those of the mesh. The owner has watched them; without it there is only that some do not answer.
func (w *witnesses) hosts() []hostView {
	all := make([]hostView, len(w.desc.Hosts))
	for i, h := range w.desc.Hosts {
		all[i] = hostView{ID: h.String(), State: hostAlive}
		switch {
		case !h.IsValid():
			all[i].State, all[i].Reason = hostMissing, fmt.Sprintf("the world has no host of rank %d", i)
		case !slices.Contains(w.there, h):
			all[i].State, all[i].Reason = hostSilent, "it does not answer"
		}
		for _, is := range w.report.Hosts {
			if is.Host == h.String() {
				all[i].State, all[i].Reason = is.State, is.Reason
			}
		}
	}
	if w.world != nil {
		for _, h := range w.world.Hosts {
			if h.Rank < len(all) && h.Lost != "" {
				all[h.Rank].State, all[h.Rank].Reason = hostDead, h.Lost
			}
		}
	}
	return all
}

// failures are the ranks that have failed: what their hosts have seen, and what only the owner knows.
func (w *witnesses) failures(statuses map[int]agent.Status) []failure {
	all := []failure{}
	for rank, s := range statuses {
		if s.Phase != agent.Failed {
			continue
		}
		f := failure{Rank: rank, Point: pointOf(w.desc.Extent, rank), Host: w.host(rank).String(), Reason: s.Reason}
		if p := w.states[rank].Proc; p != nil && w.states[rank].Status.Phase == agent.Failed {
			f.ExitCode, f.Signal, f.OOM, f.StderrTail = p.ExitCode, p.Signal, p.OOM, p.StderrTail
		}
		for _, e := range w.report.Failed {
			if e.Rank == rank {
				f.about(e)
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b failure) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Rank, b.Rank)) })
	return all
}

// about completes a failure by the event of it.
func (f *failure) about(e actor.Event) {
	f.Reason, f.At, f.Host = e.Reason, e.At, cmp.Or(e.Host, f.Host)
	if e.Cause != nil {
		f.Root = e.RootCause().String()
	}
	if f.ExitCode == nil && f.Signal == 0 {
		f.ExitCode, f.Signal = e.ExitCode, e.Signal
	}
	if len(f.StderrTail) == 0 {
		f.StderrTail = e.StderrTail
	}
}

// withoutActors is the region of the ranks that run and have no live actor; "": there are none.
func (w *witnesses) withoutActors(statuses map[int]agent.Status) string {
	has := map[int]bool{}
	for _, r := range w.actors {
		has[r.Rank] = has[r.Rank] || !ended(r.Status)
	}
	var empty []int
	for rank := range w.desc.Extent.NumRanks() {
		if statuses[rank].Phase == agent.Running && !has[rank] {
			empty = append(empty, rank)
		}
	}
	return shape.Describe(w.desc.Extent, empty)
}

// actorViews puts the actors of one name together.
func (w *witnesses) actorViews() []actorView {
	all := []actorView{}
	by := map[string]map[int]agent.Status{}
	for _, r := range w.actors {
		if by[r.Actor] == nil {
			by[r.Actor] = map[int]agent.Status{}
			all = append(all, actorView{Actor: r.Actor, Type: r.Type})
		}
		var s agent.Status
		_ = s.Phase.UnmarshalText([]byte(r.Status)) // it is one that was written so
		s.Reason = r.Reason
		by[r.Actor][r.Rank] = s
	}
	for i := range all {
		all[i].Statuses = runsOf(w.desc.Extent, by[all[i].Actor])
	}
	slices.SortFunc(all, func(a, b actorView) int { return cmp.Compare(a.Actor, b.Actor) })
	return all
}

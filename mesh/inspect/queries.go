package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// inspection collects all reports on a mesh.
type inspection struct {
	net            *mesh.Net
	desc           agent.Mesh
	liveHosts      []subjects.HostID             // hosts that answered
	lastHeard      map[subjects.HostID]time.Time // of the others, as far as it is known
	logTrouble     map[subjects.HostID]string    // of the hosts that answered
	states         map[int]agent.State
	lease          time.Duration
	report         controller.Report
	system         string                 // of a world: the system controller
	world          *system.WorldState     // of a world, instead of the report
	orders         map[string]actor.Event // the latest drain or shutdown of each host, of a world
	ownerErr       error                  // why the report is missing
	actors         []Actor
	silentProcs    []int // ranks that did not list their actors
	actorsComplete bool  // every proc has listed its actors
}

func (w *inspection) askOwner(ctx context.Context) {
	if w.desc.World != nil {
		w.ownerErr = w.askSystem(ctx)
		return
	}
	w.report, w.ownerErr = controller.Health.Call(ctx, agentRef(w.net, w.desc.Owner), actor.None{})
}

// askSystem asks the system controller for a world, if the world has this mesh.
func (w *inspection) askSystem(ctx context.Context) error {
	ref, err := system.Find(ctx, w.net.Proc())
	if err != nil {
		return err
	}
	w.system = ref.ID().String()
	past, err := system.Failures.Call(ctx, ref, actor.None{})
	if err != nil {
		return err
	}
	w.noteOrders(past)
	name := w.desc.World.World
	now, err := system.GetSnapshot.Call(ctx, ref, system.Filter{Worlds: []string{name}})
	if err != nil {
		return err
	}
	for _, s := range now.Worlds {
		if s.Mesh == w.desc.ID.String() {
			w.world = &s
			return nil
		}
	}
	return &system.NotFoundError{What: "world " + name + " of mesh " + w.desc.ID.String()}
}

// noteOrders keeps the latest drain or shutdown of each host.
func (w *inspection) noteOrders(past []actor.Event) {
	w.orders = map[string]actor.Event{}
	for _, e := range past {
		if e.Step == agent.StepDrain || e.Step == agent.StepShutdown {
			w.orders[e.Host] = e
		}
	}
}

// describeOrder names a drained or shut down host, with the user and the reason.
func describeOrder(e actor.Event) string {
	done := "drained"
	if e.Step == agent.StepShutdown {
		done = "shut down"
	}
	if user, _, _ := strings.Cut(e.By, "."); user != "" {
		done += " by " + user
	}
	return strings.TrimSuffix(fmt.Sprintf("host %s was %s: %s", text.HostLabel(e.Host), done, e.Reason), ": ")
}

// stoppedBy returns the order to a host of a world that stopped a rank; false: none did.
func (w *inspection) stoppedBy(rank int) (actor.Event, bool) {
	s := w.states[rank].Status
	e, ordered := w.orders[w.host(rank).String()]
	return e, ordered && s.Phase == agent.Stopped && s.Reason == e.Reason
}

// askActors asks the procs of the wanted ranks for their actors, or all with nil. Other reports
// cover silent procs.
func (w *inspection) askActors(ctx context.Context, m mesh.MeshState, wanted func(rank int) bool) {
	if m.Alive() {
		var err error
		if wanted == nil {
			w.actors, err = Actors(ctx, m.Procs, false)
		} else {
			found, missing := gatherActors(ctx, m, wanted)
			w.actors, err = actorsIn(found, m.Procs, false, missing)
		}
		w.actorsComplete = err == nil && wanted == nil
		if some, partial := errors.AsType[*cast.CoverageError](err); partial {
			for _, f := range some.Coverage.Missing {
				w.silentProcs = append(w.silentProcs, f.Rank)
			}
		}
	}
}

// askHosts asks each live host for its full record of the mesh, because a list of all omits output.
// For a rank on two hosts the newest generation counts.
func (w *inspection) askHosts(ctx context.Context, known []agent.State) {
	answers := make([][]agent.State, len(w.liveHosts)+1)
	answers[len(w.liveHosts)] = known // for hosts that ended meanwhile
	askEach(w.liveHosts, func(i int, id subjects.HostID) {
		host := agent.Of(id.Proc()).Via(w.net.Proc())
		answers[i], _ = agent.Get.Call(ctx, host, agent.GetRequest{ID: w.desc.ID.String()})
	})
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

// view merges the reports. The owner's report comes first.
func (w *inspection) view() View {
	if w.ownerErr == nil && w.world == nil {
		w.desc = w.report.Procs
	}
	if w.world != nil {
		w.placeHosts()
	}
	r := w.report
	v := View{
		Mesh: w.desc.ID.String(), Label: cmp.Or(
			r.Name, w.desc.ID.Label(),
		), Extent: w.desc.Extent.String(), Ranks: w.desc.Extent.NumRanks(),
		Program: w.desc.Command.Path, RestartPolicy: r.RestartPolicy.String(),
		Shape: w.desc.Extent, PerHost: w.desc.PerHost,
		Failures: []Failure{}, RestartedRanks: []RestartedRank{}, Actors: []ActorMesh{},
		Owner: Owner{
			ID: w.desc.Owner.String(), Answering: w.ownerErr == nil, Lease: r.Lease, Restarts: r.Restarts,
			Stalls: r.Stalls, Spares: len(r.Spares),
		},
	}
	v.Hosts = w.hosts()
	statuses := w.statuses()
	v.Phase = overallPhase(statuses).String()
	rank := func(rank int) int { return rank }
	v.Statuses = statusRuns(v.Shape, slices.Sorted(maps.Keys(statuses)), rank, func(rank int) agent.Status {
		return statuses[rank]
	})
	if w.desc.World != nil {
		v.Owner.ID = cmp.Or(w.system, "the system controller")
	}
	switch {
	case w.ownerErr != nil:
		v.RestartPolicy = ""
		v.Owner.Reason = errorText(w.ownerErr)
		v.Owner.Gone = actor.IsGone(w.ownerErr)
		v.LeaseLeft = w.lease
	case w.world != nil:
		v.RestartPolicy = "a proc that has ended is not started again; " +
			"its world is evicted (world.eviction-timeout)"
		v.World = &World{
			w.world.Status, w.world.Reason, w.world.StatusAge, w.world.StoppingReason, w.world.EvictionIn,
		}
	default:
		v.Owner.Since = &r.Since
		v.Phase = r.Phase.String()
	}
	for _, l := range r.Restarted {
		v.RestartedRanks = append(
			v.RestartedRanks, RestartedRank{l, Point(v.Shape, l.Rank), statuses[l.Rank].Phase.String()},
		)
	}
	v.Failures = w.failures(statuses)
	v.Actors = w.actorViews()
	if w.actorsComplete {
		v.NoActors = w.withoutActors(statuses)
	}
	live := w.answering()
	v.SilentProcs = shape.Describe(v.Shape, slices.DeleteFunc(slices.Clone(w.silentProcs), func(rank int) bool {
		return statuses[rank].Phase != agent.Running || !live[w.host(rank)]
	}))
	return v
}

// answering is the set of the live hosts.
func (w *inspection) answering() map[subjects.HostID]bool {
	live := map[subjects.HostID]bool{}
	for _, h := range w.liveHosts {
		live[h] = true
	}
	return live
}

// errorText formats an error without the callee's address.
func errorText(err error) string {
	if e, ok := errors.AsType[*actor.Error](err); ok && e.Text != "" {
		return e.Text
	}
	return err.Error()
}

// placeHosts assigns the hosts of a world to their ranks, including hosts without procs.
func (w *inspection) placeHosts() {
	w.desc.Hosts = slices.Clone(w.desc.Hosts)
	for _, h := range w.world.Hosts {
		if h.Rank < len(w.desc.Hosts) && h.Count > 0 {
			w.desc.Hosts[h.Rank] = h.ID
		}
	}
}

// unhealthyReasons returns why procs of a world failed, by rank. Hosts may not know this.
func (w *inspection) unhealthyReasons() map[int]string {
	why := map[int]string{}
	if w.world != nil {
		for _, p := range w.world.Procs {
			if p.Health != system.HealthAlive {
				why[int(p.ID.Rank)] = strings.TrimPrefix(p.Reason, agent.Failed.String()+": ")
			}
		}
	}
	return why
}

// noHostReason is the reason of a rank without host in a world.
const noHostReason = "no host has it"

// statuses returns the status of each rank from its owner, else from its host, else unknown.
func (w *inspection) statuses() map[int]agent.Status {
	by := map[int]agent.Status{}
	ailing := w.unhealthyReasons()
	live := w.answering()
	for rank := range w.desc.Extent.NumRanks() {
		s, is := w.states[rank]
		by[rank] = s.Status
		if e, ordered := w.stoppedBy(rank); ordered {
			by[rank] = agent.Status{Phase: agent.Stopped, Reason: describeOrder(e)}
		}
		if is {
			continue
		}
		h := w.host(rank)
		reason := "its host %s does not answer"
		why := ailing[rank]
		switch there := live[h]; {
		case !h.IsValid():
			by[rank] = agent.Status{Phase: agent.NotExist, Reason: noHostReason}
			continue
		case why != "":
			by[rank] = agent.Status{Phase: agent.Failed, Reason: why}
			continue
		case there && w.world != nil:
			by[rank] = agent.Status{
				Phase: agent.NotExist, Reason: fmt.Sprintf("its host %s has not started it", h.Label()),
			}
			continue
		case there:
			reason = "its host %s does not know it any more"
		}
		by[rank] = agent.Status{Phase: agent.Unknown, Reason: fmt.Sprintf(reason, h.Label())}
	}
	if w.ownerErr == nil && w.world == nil {
		w.report.Statuses.Each(len(by), func(rank int, s agent.Status) { by[rank] = s })
	}
	return by
}

func (w *inspection) host(rank int) subjects.HostID { return w.desc.Hosts[rank/w.desc.PerHost] }

// hosts returns the hosts of the mesh in the owner's view. A host that did not answer is not alive:
// the owner finds out seconds later. Without owner only silence is known.
func (w *inspection) hosts() []Host {
	all := make([]Host, len(w.desc.Hosts))
	live := w.answering()
	reported := map[string]controller.HostHealth{}
	for _, is := range w.report.Hosts {
		reported[is.Host] = is
	}
	for i, h := range w.desc.Hosts {
		all[i] = Host{ID: h.String(), State: hostAlive, LogTrouble: w.logTrouble[h]}
		if !h.IsValid() {
			all[i].State, all[i].Reason = hostMissing, fmt.Sprintf("the world has no host with rank %d", i)
		} else if !live[h] {
			all[i] = Host{ID: h.String(), State: hostSilent, Reason: "no answer", Since: w.lastHeard[h]}
		}
		if is, known := reported[h.String()]; known && is.State != hostAlive {
			all[i].State = is.State
			all[i].Reason = is.Reason
		}
	}
	if w.world == nil {
		return all
	}
	for _, h := range w.world.Hosts {
		if h.Rank < len(all) && h.Lost != "" {
			all[h.Rank].State, all[h.Rank].Reason = hostDead, h.Lost
		}
	}
	for rank, id := range w.world.Left {
		if rank < len(all) && all[rank].State == hostMissing {
			why := fmt.Sprintf("host %s has left", id.Label())
			if e, ordered := w.orders[id.String()]; ordered {
				why = describeOrder(e)
			}
			all[rank].Reason += ": " + why
		}
	}
	for rank := range w.desc.Extent.NumRanks() {
		if e, ordered := w.stoppedBy(rank); ordered {
			all[rank/w.desc.PerHost].StoppedBy = describeOrder(e)
		}
	}
	return all
}

// failures returns the failed ranks, as reported by hosts and by the owner.
func (w *inspection) failures(statuses map[int]agent.Status) []Failure {
	all := []Failure{}
	for rank, s := range statuses {
		if s.Phase != agent.Failed {
			continue
		}
		f := Failure{Rank: rank, Point: Point(w.desc.Extent, rank), Host: w.host(rank).String(), Reason: s.Reason}
		if p := w.states[rank].Proc; p != nil && w.states[rank].Status.Phase == agent.Failed {
			f.ExitCode = p.ExitCode
			f.Signal = p.Signal
			f.OOM = p.OOM
			f.StderrTail = p.StderrTail
		}
		for _, e := range w.report.Failed {
			if e.Rank == rank {
				f.addEvent(e)
			}
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Failure) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Rank, b.Rank))
	})
	return all
}

// addEvent adds the details of an event to a failure.
func (f *Failure) addEvent(e actor.Event) {
	f.Reason = e.Reason
	f.At = e.At
	f.Host = cmp.Or(e.Host, f.Host)
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

// withoutActors returns the region of running ranks without live actors, or "".
func (w *inspection) withoutActors(statuses map[int]agent.Status) string {
	has := map[int]bool{}
	for _, r := range w.actors {
		has[r.Rank] = has[r.Rank] || !Ended(r.Status)
	}
	var empty []int
	for rank := range w.desc.Extent.NumRanks() {
		if statuses[rank].Phase == agent.Running && !has[rank] {
			empty = append(empty, rank)
		}
	}
	return shape.Describe(w.desc.Extent, empty)
}

// actorViews groups actors by name.
func (w *inspection) actorViews() []ActorMesh {
	all := []ActorMesh{}
	rank := func(a Actor) int { return a.Rank }
	name := func(a Actor) string { return a.Actor }
	status := func(a Actor) (s agent.Status) {
		_ = s.Phase.UnmarshalText([]byte(a.Status)) // written by MarshalText
		s.Reason = a.Reason
		return s
	}
	for _, g := range GroupRanks(w.desc.Extent, w.actors, rank, name) {
		runs := statusRuns(w.desc.Extent, g.Items, rank, status)
		all = append(all, ActorMesh{Actor: g.Outcome, Type: g.Items[0].Type, Statuses: runs})
	}
	slices.SortFunc(all, func(a, b ActorMesh) int { return cmp.Compare(a.Actor, b.Actor) })
	return all
}

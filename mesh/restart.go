package mesh

import (
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
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// RollingRestart configures the restart of a mesh's ranks in batches.
type RollingRestart struct {
	MaxUnavailable int              // ranks that restart at a time; 0: 1
	Grace          time.Duration    // how long a proc may take to stop before it is killed; 0: terminate.grace
	Reason         string           // for events and logs
	Force          bool             // restart also where actors are lost, see CheckRestart
	OnRank         func(RankStatus) // gets the status of each finished rank, one at a time; nil: none
}

// LostActorsError reports that a restart, or a drain to other hosts, would lose actors, or that
// some procs do not list their actors.
type LostActorsError struct {
	Verb   string // restart or drain
	Mesh   string
	Lost   []LostActors // by name
	Silent error        // the errors of procs that do not list their actors; nil: none
}

// LostActors is an actor mesh that would not restart with its procs.
type LostActors struct {
	Name   string
	Region string // the lost ranks, in the extent of the whole proc mesh
	Reason string
}

func (e *LostActorsError) Error() string {
	var b strings.Builder
	if len(e.Lost) > 0 {
		fmt.Fprintf(&b, "%s %s: its actors would be lost:", e.Verb, e.Mesh)
	} else {
		fmt.Fprintf(&b, "%s %s: its actors may be lost:", e.Verb, e.Mesh)
	}
	for _, l := range e.Lost {
		fmt.Fprintf(&b, "\n  %s on [%s]: %s", l.Name, l.Region, l.Reason)
	}
	if e.Silent != nil {
		fmt.Fprintf(&b, "\n  some procs do not list their actors: %v", e.Silent)
	}
	return b.String()
}

func (e *LostActorsError) Unwrap() error { return e.Silent }

// CheckRestart fails with a *LostActorsError if a Restart of the region would lose actors. An actor
// restarts if its owner answers and has the restart policy Transient. Uncontrolled actors and those
// of a Service have no owner.
func (p ProcMesh) CheckRestart(ctx context.Context) error {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return err
	}
	return lostActors(ctx, p, "restart", func(int) bool { return true })
}

// lostActors returns a *LostActorsError if actors on those ranks of the whole mesh would not
// restart.
func lostActors(ctx context.Context, p ProcMesh, verb string, among func(base int) bool) error {
	lost := &LostActorsError{Verb: verb, Mesh: p.desc.ID.String()}
	asking, cancel := context.WithTimeout(ctx, config.ActorQueryTimeout.Get(p.net.config))
	defer cancel()
	all, err := p.Actors(asking)
	switch partial, is := errors.AsType[*cast.CoverageError](err); {
	case ctx.Err() != nil:
		return fmt.Errorf("%s %s: %w", verb, lost.Mesh, ctx.Err())
	case is && !onlyEnded(partial, among, p.region):
		lost.Silent = err
	case err != nil && !is:
		return fmt.Errorf("%s %s: cannot list its actors: %w", verb, lost.Mesh, err)
	}
	owners := map[string]subjects.ActorID{}
	ranks := map[string][]int{}
	for view, states := range all.Values() {
		base, err := p.region.BaseRank(view)
		if err != nil {
			return err
		}
		for _, s := range states {
			if !among(base) || s.Actor == nil || !s.Actor.Managed || s.Status.Phase.Terminal() {
				continue
			}
			ranks[s.ID] = append(ranks[s.ID], base)
			if s.Claim != nil {
				owners[s.ID] = s.Claim.Owner
			}
		}
	}
	names := slices.Sorted(maps.Keys(ranks))
	reasons := make([]string, len(names))
	fanout.Each(maxConcurrentAsks, names, func(i int, name string) {
		reasons[i] = lossReason(ctx, p.net, owners[name])
	})
	for i, name := range names {
		if reasons[i] != "" {
			lost.Lost = append(lost.Lost, LostActors{name, shape.Describe(p.desc.Extent, ranks[name]), reasons[i]})
		}
	}
	if len(lost.Lost) == 0 && lost.Silent == nil {
		return nil
	}
	return lost
}

// lossReason returns the reason why the actors of an owner do not restart with their procs; "":
// they do.
func lossReason(ctx context.Context, n *Net, owner subjects.ActorID) string {
	if !owner.IsValid() {
		return "no owner restarts them"
	}
	ctx, cancel := context.WithTimeout(ctx, config.ActorQueryTimeout.Get(n.config))
	defer cancel()
	r, err := controller.Health.Call(ctx, actor.RefOf[agent.Agent](owner).Via(n.proc), actor.None{})
	if err != nil {
		return "their owner does not answer: " + err.Error()
	}
	if r.RestartPolicy.Restart != Transient {
		return fmt.Sprintf("their restart policy is %s, not %s", r.RestartPolicy.Restart, Transient)
	}
	return ""
}

// onlyEnded reports whether all ranks of the mesh without a reply, among those, have ended.
func onlyEnded(e *cast.CoverageError, among func(base int) bool, r shape.Region) bool {
	matters := func(f cast.Failure) bool {
		base, err := r.BaseRank(f.Rank)
		return err != nil || among(base)
	}
	alive := func(f cast.Failure) bool { return matters(f) && !isUnreachable(f.Err) }
	return !slices.ContainsFunc(e.Coverage.Missing, matters) && !slices.ContainsFunc(e.Coverage.Failed, alive)
}

// RestartError reports an incomplete rolling restart: the first ranks that did not restart, and the
// number of ranks that were not tried.
type RestartError struct {
	Mesh     string
	Ranks    int          // of the region
	Failed   []RankStatus // in the order in which they failed
	NotTried int          // ranks that did not stop
	Err      error        // the cause, if it is not a failed rank
}

func (e *RestartError) Error() string {
	text := fmt.Sprintf("restart %s: %v", e.Mesh, e.Err)
	if len(e.Failed) > 0 {
		text = listRanks("restart", e.Mesh, e.Ranks, e.Failed, "did not restart")
	}
	if e.NotTried > 0 {
		text += fmt.Sprintf("\n  %d ranks not tried", e.NotTried)
	}
	return text
}

func (e *RestartError) Unwrap() error { return e.Err }

// Restart ends the procs of the region and starts each in place, as the next generation of its
// rank, whatever the policy of the mesh. It goes in batches, each once the one before runs with its
// actors. Actors restart if their own policy says so. A restart that would lose actors is refused,
// see CheckRestart, unless RollingRestart.Force is set. It skips ended ranks. It stops when ctx
// ends, or at the first rank that does not restart, once running restarts are over. A *RestartError
// describes an incomplete restart (MESH-18).
func (p ProcMesh) Restart(ctx context.Context, r RollingRestart) error {
	p = resolved(p)
	if err := p.Err(); err != nil {
		return err
	}
	id := p.desc.ID.String()
	switch {
	case p.desc.World != nil:
		return fmt.Errorf("cannot restart %s: the ranks of world %s restart with their hosts: "+
			"stop each hostd (SIGTERM) and start it again, one after another: %s; "+
			"or stop the world and declare it again", id, p.desc.World.World, worldHosts(p))
	case r.MaxUnavailable < 0 || r.MaxUnavailable > agent.MaxConcurrentMoves:
		return fmt.Errorf("restart %s: %d ranks at once: want 1 to %d, or 0 for 1",
			id, r.MaxUnavailable, agent.MaxConcurrentMoves)
	case p.desc.PerProcess > 1:
		return fmt.Errorf("cannot restart %s: %d procs share a process", id, p.desc.PerProcess)
	}
	ranks, err := restartable(ctx, p)
	if err != nil {
		return fmt.Errorf("restart %s: %w", id, err)
	}
	if len(ranks) > 0 && !r.Force {
		if err := p.CheckRestart(ctx); err != nil {
			return err
		}
	}
	failed := &RestartError{Mesh: id, Ranks: p.region.NumRanks()}
	over := make(chan restartResult)
	running := 0
	for next := 0; ; {
		for running < max(r.MaxUnavailable, 1) && next < len(ranks) {
			if len(failed.Failed) > 0 || failed.Err != nil || ctx.Err() != nil {
				break
			}
			view := ranks[next]
			go func() { over <- restartRank(ctx, p, view, r) }()
			next++
			running++
		}
		failed.NotTried = len(ranks) - next
		if running == 0 {
			break
		}
		o := <-over // restartRank has a deadline
		running--
		if o.err != nil {
			failed.Err = errors.Join(failed.Err, o.err)
			o.Status = agent.Status{Phase: agent.Timeout, Reason: o.err.Error()}
		}
		if o.Status.Phase != agent.Running {
			failed.Failed = append(failed.Failed, o.RankStatus)
		}
		if r.OnRank != nil {
			r.OnRank(o.RankStatus)
		}
	}
	if failed.Err == nil && failed.NotTried > 0 {
		failed.Err = ctx.Err()
	}
	if len(failed.Failed) == 0 && failed.NotTried == 0 {
		return nil
	}
	return failed
}

// worldHosts lists the hosts of a world's region, each with the flags of its hostd.
func worldHosts(p ProcMesh) string {
	var all []string
	for at, h := range p.desc.Hosts {
		if h.IsValid() && slices.Contains(hostsOf(p).hosts, h) {
			all = append(all, fmt.Sprintf("%s (--world %s --host-rank %d)", h.Label(), p.desc.World.World, at))
		}
	}
	return joinSome(all, maxListed)
}

// restartResult is the result of restarting a rank, or the reason why it is unknown.
type restartResult struct {
	RankStatus
	err error
}

// restartable returns the live ranks of the region, as their owner knows them.
func restartable(ctx context.Context, p ProcMesh) (views []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, config.ProcQueryTimeout.Get(p.net.config))
	defer cancel()
	states, err := agent.Get.Call(ctx, p.controller(), agent.GetRequest{ID: p.desc.ID.String()})
	ended := map[int]bool{}
	for _, s := range states {
		ended[s.Rank] = s.Status.Phase.Terminal()
	}
	for view, base := range p.region.Ranks() {
		if !ended[base] {
			views = append(views, view)
		}
	}
	return views, err
}

// restartRank restarts one rank, within the time for its end, its start and the start of its
// actors.
func restartRank(ctx context.Context, p ProcMesh, view int, r RollingRestart) restartResult {
	c := p.net.config
	limit := max(r.Grace, 0) + config.MeshStopTimeout.Get(c) +
		config.MeshSpawnTimeout.Get(c) + config.SupervisionRestartWait.Get(c)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	part, err := p.region.Single(view)
	if err != nil {
		return restartResult{err: err}
	}
	request := agent.RestartRequest{ID: p.desc.ID.String(), Region: &part, Reason: r.Reason, Grace: r.Grace}
	o, err := agent.Restart.Call(ctx, p.controller(), request)
	return restartResult{rankStatuses(o, p.desc, part, func(agent.Status) bool { return true })[0], err}
}

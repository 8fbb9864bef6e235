package main

import (
	"context"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// answerWithin is how long the owner of a mesh, its hosts and its procs may each take to say how it is: who is
// silent is part of the answer.
const answerWithin = 2 * time.Second

// meshView is what the owner of a mesh, its hosts and its procs say of it; its JSON names are stable.
type meshView struct {
	Mesh     string        `json:"mesh"`
	Label    string        `json:"label"`
	Extent   string        `json:"extent"`
	Ranks    int           `json:"ranks"`
	Program  string        `json:"program"`
	Phase    string        `json:"phase"`
	Statuses []statusRun   `json:"statuses"`
	Failures []failure     `json:"failures"` // of the newest generations, the first one first
	Later    []laterRank   `json:"later"`    // ranks that are not in their first generation
	Hosts    []hostView    `json:"hosts"`
	Actors   []actorView   `json:"actors"`
	Lease    time.Duration `json:"lease_left"` // until the hosts stop the procs, when nobody renews it; 0: never
	Owner    ownerView     `json:"owner"`
	Policy   string        `json:"policy"`
	World    *worldView    `json:"world,omitempty"` // of a world, which the system controller owns
	NoActors string        `json:"no_actors"`       // the region of the ranks that run and have no live actor

	base    shape.Extent
	perHost int
}

// worldView is what the system controller says of a world.
type worldView struct {
	Status worlds.Status `json:"status"`
	Reason string        `json:"reason,omitempty"`
	For    time.Duration `json:"for"`
	Ending string        `json:"ending,omitempty"`
}

// ownerView is the controller of a mesh, and what only that knows.
type ownerView struct {
	ID          string        `json:"id"`
	Answers     bool          `json:"answers"`
	Why         string        `json:"why,omitempty"` // it does not
	Since       *time.Time    `json:"since,omitempty"`
	Lease       time.Duration `json:"lease"`
	Subscribers int           `json:"subscribers"`
	Restarts    int           `json:"restarts"`
	Stalls      int           `json:"stalls"`
	Spares      int           `json:"spares"`
}

// statusRun is ranks that are alike.
type statusRun struct {
	Region string `json:"region"`
	Ranks  int    `json:"ranks"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// failure is a rank that has failed.
type failure struct {
	Rank       int       `json:"rank"`
	Point      string    `json:"point"`
	Host       string    `json:"host"`
	Reason     string    `json:"reason"`
	Root       string    `json:"root,omitempty"` // the end of something else that it did not survive
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	OOM        bool      `json:"oom,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// laterRank is a rank in a later generation, or on its way to one.
type laterRank struct {
	controller.Later
	Point string `json:"point"`

	status string // of the rank
}

// hostView is a host of a mesh. Its state is alive, or what the owner says of it, or silent.
type hostView struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// actorView is the actors of one name.
type actorView struct {
	Actor    string      `json:"actor"`
	Type     string      `json:"type"`
	Statuses []statusRun `json:"statuses"`
}

const (
	hostAlive   = "alive"
	hostDead    = "dead"
	hostSilent  = "silent"
	hostMissing = "missing" // a world has no host of the rank
)

// parseMesh reads the name of a whole mesh.
func parseMesh(text, verb string) (target, error) {
	t, err := parseTarget(text)
	if err == nil && t.region != "" {
		err = cli.Usagef("%s is about whole meshes: want %s, got %s", verb, t.name, t)
	}
	return t, err
}

// view asks everybody who knows something of a mesh that lives, or else of the newest that has ended (CLI-C7).
func (t target) view(ctx context.Context, net *mesh.Net) (meshView, error) {
	hosts, err := net.AllHosts(ctx)
	if err != nil {
		return meshView{}, err
	}
	var ids []subjects.HostID
	for _, h := range hosts.Infos() {
		ids = append(ids, h.ID)
	}
	all, err := net.MeshesOn(ctx, ids)
	if err != nil {
		return meshView{}, err
	}
	m, err := t.among(net, all)
	if w, system, bare := bareWorld(ctx, net, t.name, err); bare {
		return bareView(net, w, system, ids)
	}
	if err != nil {
		return meshView{}, err
	}
	w := witnesses{net: net, desc: m.Procs.Describe(), there: ids}
	var wg sync.WaitGroup
	within, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	wg.Go(func() { w.askOwner(within) })
	wg.Go(func() { w.askActors(within, m) })
	w.askHosts(within, m.States)
	wg.Wait()
	return w.view(), ctx.Err()
}

// phaseOf is how a mesh is as a whole whose owner does not say: as its least advanced rank is, of those that exist. What
// has none does not exist.
func phaseOf(by map[int]agent.Status) agent.Phase {
	least, most := agent.Unknown, agent.NotExist
	for _, s := range by {
		if s.Phase != agent.NotExist {
			least, most = min(least, s.Phase), max(most, s.Phase)
		}
	}
	if most == agent.NotExist || least.Terminal() {
		return most // failed when one has, and unknown when one may live
	}
	return least
}

// runsOf puts ranks together that are alike, in the order of the first of each.
func runsOf(base shape.Extent, by map[int]agent.Status) []statusRun {
	ranks, first := map[agent.Status][]int{}, []agent.Status{}
	for rank := range base.NumRanks() {
		s, is := by[rank]
		if !is {
			continue
		}
		if ranks[s] == nil {
			first = append(first, s)
		}
		ranks[s] = append(ranks[s], rank)
	}
	runs := []statusRun{}
	for _, s := range first {
		runs = append(runs, statusRun{shape.Describe(base, ranks[s]), len(ranks[s]), s.Phase.String(), s.Reason})
	}
	return runs
}

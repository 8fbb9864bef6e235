package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
	"github.com/castnet-io/castnet/system"
)

// inspectTimeout bounds the reports of owner, hosts and procs. The output names silent ones.
const inspectTimeout = 2 * time.Second

// meshView is the merged view of owner, hosts and procs. Its JSON names are stable.
type meshView struct {
	Mesh           string          `json:"mesh"`
	Label          string          `json:"label"`
	Extent         string          `json:"extent"`
	Ranks          int             `json:"ranks"`
	Program        string          `json:"program"`
	Phase          string          `json:"phase"`
	Statuses       []statusRun     `json:"statuses"`
	Failures       []failure       `json:"failures"` // of the newest generations, earliest first
	RestartedRanks []restartedRank `json:"restarts"` // ranks beyond their first generation
	Hosts          []hostView      `json:"hosts"`
	Actors         []actorView     `json:"actors"`
	Lease          time.Duration   `json:"lease_left"` // until hosts stop the procs without renewal; 0: never
	Owner          ownerView       `json:"owner"`
	Policy         string          `json:"policy"`
	World          *worldView      `json:"world,omitempty"` // for a world of the system controller
	NoActors       string          `json:"no_actors"`       // region of running ranks without live actors

	base    shape.Extent
	perHost int
}

// worldView is the system controller's view of a world.
type worldView struct {
	Status system.Status `json:"status"`
	Reason string        `json:"reason,omitempty"`
	For    time.Duration `json:"for"`
	Ending string        `json:"ending,omitempty"`
}

// ownerView is the controller of a mesh with its own data.
type ownerView struct {
	ID       string        `json:"id"`
	Answers  bool          `json:"answers"`
	Why      string        `json:"reason,omitempty"` // why it does not answer
	Since    *time.Time    `json:"since,omitempty"`
	Lease    time.Duration `json:"lease"`
	Restarts int           `json:"restarts"`
	Stalls   int           `json:"stalls"`
	Spares   int           `json:"spares"`
}

// statusRun is a set of ranks with equal status.
type statusRun struct {
	Region string `json:"region"`
	Ranks  int    `json:"ranks"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// failure is a failed rank.
type failure struct {
	Rank       int       `json:"rank"`
	Point      string    `json:"point"`
	Host       string    `json:"host"`
	Reason     string    `json:"reason"`
	Root       string    `json:"root,omitempty"` // the end that caused it
	ExitCode   *int      `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	OOM        bool      `json:"oom,omitempty"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
	At         time.Time `json:"at,omitzero"`
}

// restartedRank is a rank in a later generation, or in a restart.
type restartedRank struct {
	controller.RankHistory
	Point string `json:"point"`

	status string // of the rank
}

// hostView is a host of a mesh. State is alive, or the owner's view, or silent.
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
	hostMissing = "missing" // no host of the world has the rank
)

// parseMesh parses the name of a whole mesh.
func parseMesh(text, verb string) (target, error) {
	t, err := parseTarget(text)
	if err == nil && t.region != "" {
		err = cli.Usagef("%s takes a whole mesh: want %s, got %s", verb, t.name, t)
	}
	return t, err
}

// inspect asks all parties of a live mesh, else of the newest ended one (CLI-C7). missing names the
// silent hosts that may have a live one.
func (t target) inspect(ctx context.Context, net *mesh.Net) (v meshView, missing, err error) {
	inv, m, missing, err := t.findWithEnded(ctx, net)
	var ids []subjects.HostID
	for _, h := range inv.Hosts {
		if h.State == agent.HostAlive {
			ids = append(ids, h.ID)
		}
	}
	if w, ctl, bare := findEmptyWorld(ctx, net, t.name, err); bare {
		v, err = emptyWorldView(net, w, ctl, ids)
		return v, inv.Err(), err
	}
	if err != nil {
		return meshView{}, nil, err
	}
	m.States = slices.DeleteFunc(m.States, func(s agent.State) bool { return s.Status.Phase == agent.Unknown }) // the owner knows more
	w := inspection{net: net, desc: m.Procs.Describe(), liveHosts: ids}
	var wg sync.WaitGroup
	within, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	wg.Go(func() { w.askOwner(within) })
	wg.Go(func() { w.askActors(within, m) })
	w.askHosts(within, m.States)
	wg.Wait()
	return w.view(), missing, ctx.Err()
}

// overallPhase derives the phase of a mesh from its ranks: the least advanced existing one, or
// NotExist.
func overallPhase(by map[int]agent.Status) agent.Phase {
	least, most := agent.Unknown, agent.NotExist
	for _, s := range by {
		if s.Phase != agent.NotExist {
			least, most = min(least, s.Phase), max(most, s.Phase)
		}
	}
	if most == agent.NotExist || least.Terminal() {
		return most // failed with one failed rank, unknown with one possibly alive
	}
	return least
}

// groupByStatus groups equal ranks in order of first appearance.
func groupByStatus(base shape.Extent, by map[int]agent.Status) []statusRun {
	ranks := map[agent.Status][]int{}
	first := []agent.Status{}
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

package mesh

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
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/subjects"
)

// Inventory is the hosts and the proc meshes of a namespace at one moment. It holds the hosts that
// answered, and those expected by a gateway or the owner of a mesh (MESH-9).
type Inventory struct {
	Hosts []HostState // by label
	// Meshes are the meshes known to the answering hosts. A rank on a silent host has its status
	// from the owner of the mesh, or Unknown; its State has no Proc.
	Meshes     []MeshState
	TimedOut   bool // the deadline of the context ended the search for hosts: more may exist
	NoHostList bool // no gateway listed the hosts in time: more silent hosts may exist
	// Unconfirmed are the hosts in whose name the search was answered, without an agent: a stranger
	// answered.
	Unconfirmed []subjects.HostID
}

// HostState is the state of a host.
type HostState struct {
	agent.HostInfo // of a silent host the ID and the label only
	// State is agent.HostAlive if the host answered, else HostSuspect, HostUnknown or HostDead.
	State   string        `json:"state"`
	Reason  string        `json:"reason,omitempty"`  // why it is not alive
	Silence time.Duration `json:"silence,omitempty"` // since its last message; 0: it answered, or unknown
}

// String names the host and its state, such as "b (suspect, last heard 3s ago)".
func (h HostState) String() string {
	if h.Silence == 0 {
		return fmt.Sprintf("%s (%s)", h.Label, h.State)
	}
	silence := h.Silence.Round(time.Second).String()
	if h.Silence >= time.Minute {
		silence = strings.TrimSuffix(h.Silence.Truncate(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%s (%s, last heard %s ago)", h.Label, h.State, silence)
}

// MissingHostsError reports that an Inventory may be incomplete.
type MissingHostsError struct {
	Hosts    int         // known hosts
	Silent   []HostState // known hosts that did not answer
	TimedOut bool        // the search ended at its deadline
	// NoHostList means that no gateway listed the hosts in time.
	NoHostList bool
}

func (e *MissingHostsError) Error() string {
	var parts []string
	if len(e.Silent) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d hosts did not answer: %s",
			len(e.Silent), e.Hosts, joinHosts(e.Silent)))
	}
	if e.TimedOut {
		parts = append(parts, "the search for hosts ended at its deadline: more hosts may exist")
	}
	if e.NoHostList {
		parts = append(parts, "no gateway listed the hosts: silent hosts may be missing")
	}
	return strings.Join(parts, "; ")
}

// Unwrap is context.DeadlineExceeded if the search ended at its deadline.
func (e *MissingHostsError) Unwrap() error {
	if e.TimedOut {
		return context.DeadlineExceeded
	}
	return nil
}

// MayBeAlive reports whether a host that did not answer may be alive.
func (e *MissingHostsError) MayBeAlive() bool {
	return slices.ContainsFunc(e.Silent, func(h HostState) bool { return h.State != agent.HostDead })
}

// maxNamed bounds the hosts in an error text.
const maxNamed = 5

func joinHosts(hosts []HostState) string {
	all := make([]string, len(hosts))
	for i, h := range hosts {
		all[i] = h.String()
	}
	return joinSome(all, maxNamed)
}

// Silent returns the hosts that did not answer.
func (i Inventory) Silent() (hosts []HostState) {
	for _, h := range i.Hosts {
		if h.State != agent.HostAlive {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// Err returns nil if every known host answered and no host can be unknown; otherwise a
// *MissingHostsError.
func (i Inventory) Err() error {
	e := &MissingHostsError{
		Hosts: len(i.Hosts), Silent: i.Silent(), TimedOut: i.TimedOut, NoHostList: i.NoHostList,
	}
	if len(e.Silent) == 0 && !e.TimedOut && !e.NoHostList {
		return nil
	}
	return e
}

// MissingRanks returns the ranks of a mesh of the Inventory on silent hosts, and those hosts.
func (i Inventory) MissingRanks(p ProcMesh) (ranks []int, hosts []HostState) {
	p = current(p)
	silent := map[subjects.HostID]HostState{}
	for _, h := range i.Silent() {
		silent[h.ID] = h
	}
	if len(silent) == 0 {
		return nil, nil
	}
	named := map[subjects.HostID]bool{}
	for view, base := range p.region.Ranks() {
		h, lacks := silent[p.shareHost(base/p.desc.PerHost)]
		if !lacks {
			continue
		}
		ranks = append(ranks, view)
		if !named[h.ID] {
			named[h.ID] = true
			hosts = append(hosts, h)
		}
	}
	return ranks, hosts
}

// inventoryTimeout bounds the wait for the answers of hosts and owners.
const inventoryTimeout = 2 * time.Second

// Inventory asks all hosts at once for their procs, the gateways for their hosts, and the owners of
// meshes about silent hosts. It omits silent hosts that left cleanly, that were dead for
// discovery.dead-host-retention, or that are back under another ID. An Inventory without hosts is
// an error.
func (n *Net) Inventory(ctx context.Context) (Inventory, error) {
	var known agent.HostList
	var unlisted error
	var asking sync.WaitGroup
	asking.Go(func() { known, unlisted = agent.ListKnownHosts(ctx, n.bus, n.proc.Space()) })
	infos, _, err := n.searchHosts(ctx)
	var failed map[subjects.HostID]error
	states := map[subjects.HostID]hostStates{}
	if err == nil && ctx.Err() == nil {
		found := infos
		asking.Go(func() { states = n.inventoryStates(ctx, found) })
		infos, failed = agent.ConfirmHosts(ctx, n.proc, found)
	}
	asking.Wait()
	i := Inventory{TimedOut: errors.Is(ctx.Err(), context.DeadlineExceeded)}
	i.NoHostList = !i.TimedOut && errors.Is(unlisted, context.DeadlineExceeded)
	switch {
	case err != nil:
		return i, err
	case ctx.Err() != nil && !i.TimedOut:
		return i, ctx.Err()
	case unlisted != nil && !i.TimedOut && !i.NoHostList && !errors.Is(unlisted, bus.ErrNoResponders):
		return i, unlisted
	}
	silent := silentHosts{}
	var ids []subjects.HostID
	answered := map[subjects.HostID]bool{}
	for _, info := range infos {
		ids = append(ids, info.ID)
		answered[info.ID] = true
		i.Hosts = append(i.Hosts, HostState{HostInfo: info, State: agent.HostAlive})
	}
	for id, err := range failed {
		listed := slices.ContainsFunc(known.Hosts, func(k agent.KnownHost) bool { return k.ID == id })
		if errors.Is(err, actor.ErrNoProc) && !listed {
			i.Unconfirmed = append(i.Unconfirmed, id)
		} else if !i.TimedOut {
			silent.add(HostState{HostInfo: agent.HostInfo{ID: id}, State: agent.HostSuspect, Reason: err.Error()})
		}
	}
	slices.SortFunc(i.Unconfirmed, subjects.HostID.Compare)
	for _, k := range known.Hosts {
		if !answered[k.ID] {
			silent.add(HostState{
				HostInfo: agent.HostInfo{ID: k.ID}, State: k.State, Reason: k.Reason, Silence: k.Silence,
			})
		}
	}
	if len(i.Hosts) == 0 && len(silent) == 0 {
		if i.TimedOut {
			return i, i.Err()
		}
		return i, noHostsError(n)
	}
	if err := i.addMeshes(ctx, n, ids, states, silent); err != nil {
		return i, err
	}
	i.addSilent(silent, config.DiscoveryDeadHostRetention.Get(n.config))
	return i, nil
}

// silentHosts are the silent hosts, as their watchers know them.
type silentHosts map[subjects.HostID]HostState

// add adds a watcher's view of a silent host. The view with the latest message of the host counts.
func (s silentHosts) add(h HostState) {
	if h.State == agent.HostAlive {
		h.State = agent.HostSuspect
		h.Reason = "it did not answer"
	}
	h.Label = h.ID.Label()
	had, is := s[h.ID]
	if !is || had.State == agent.HostUnknown || h.State != agent.HostUnknown && h.Silence < had.Silence {
		s[h.ID] = h
	}
}

// addSilent adds the silent hosts that are still expected.
func (i *Inventory) addSilent(silent silentHosts, remember time.Duration) {
	back := map[string]bool{}
	for _, h := range i.Hosts {
		back[h.Label] = true
	}
	for _, h := range silent {
		if h.State == agent.HostDead && (h.Silence > remember || back[h.Label]) {
			continue
		}
		i.Hosts = append(i.Hosts, h)
	}
	slices.SortFunc(i.Hosts, func(a, b HostState) int {
		return cmp.Or(cmp.Compare(a.Label, b.Label), a.ID.Compare(b.ID))
	})
}

// hostStates is the answer of a host about all its procs.
type hostStates struct {
	states []agent.State
	err    error
}

// inventoryStates asks found hosts for their procs.
func (n *Net) inventoryStates(
	ctx context.Context, found []agent.HostInfo,
) map[subjects.HostID]hostStates {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	ids := make([]subjects.HostID, len(found))
	for i, info := range found {
		ids[i] = info.ID
	}
	by := map[subjects.HostID]hostStates{}
	states, errs := n.askStates(ctx, ids)
	for i, id := range ids {
		by[id] = hostStates{states[i], errs[i]}
	}
	return by
}

// addMeshes adds the meshes in the answers of the hosts. It asks the owners of meshes for procs on
// silent hosts.
func (i *Inventory) addMeshes(
	ctx context.Context, n *Net, ids []subjects.HostID, answers map[subjects.HostID]hostStates,
	silent silentHosts,
) error {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	found := meshAssembly{net: n, byID: map[string]*assembledMesh{}}
	for _, id := range ids {
		a := answers[id]
		if a.err != nil && i.TimedOut {
			continue // the deadline passed before its answer
		}
		if a.err != nil {
			i.Hosts = slices.DeleteFunc(i.Hosts, func(h HostState) bool { return h.ID == id })
			silent.add(HostState{HostInfo: agent.HostInfo{ID: id}, State: agent.HostSuspect, Reason: a.err.Error()})
			continue
		}
		if err := found.addHost(id, a.states); err != nil {
			return err
		}
	}
	i.Meshes = found.all()
	answered := map[subjects.HostID]bool{}
	for _, h := range i.Hosts {
		answered[h.ID] = true
	}
	var mu sync.Mutex // guards silent
	fanout.Each(maxConcurrentAsks, i.Meshes, func(at int, m MeshState) {
		if !m.Alive() { // so it is not followed either
			return
		}
		lacks := m.ranksOnHosts(func(h subjects.HostID) bool { return !answered[h] })
		if len(lacks) == 0 {
			return
		}
		var report controller.Report
		err := errNoReport
		if m.Procs.desc.World == nil {
			report, err = controller.Health.Call(ctx, m.Procs.controller(), actor.None{})
		}
		mu.Lock()
		defer mu.Unlock()
		i.Meshes[at].addSilentRanks(lacks, report, err, silent)
	})
	return nil
}

var errNoReport = errors.New("the system controller has no report of a single mesh")

// ranksOnHosts returns the ranks of the mesh on matching hosts, each with its host.
func (m MeshState) ranksOnHosts(matches func(subjects.HostID) bool) map[int]subjects.HostID {
	ranks := map[int]subjects.HostID{}
	for rank := range m.Procs.desc.Extent.NumRanks() {
		if h := m.Procs.shareHost(rank / m.Procs.desc.PerHost); h.IsValid() && matches(h) {
			ranks[rank] = h
		}
	}
	return ranks
}

// addSilentRanks adds the ranks on silent hosts and the state of those hosts, as the owner of the
// mesh knows them.
func (m *MeshState) addSilentRanks(
	lacks map[int]subjects.HostID, r controller.Report, unasked error, silent silentHosts,
) {
	health := map[string]controller.HostHealth{}
	for _, h := range r.Hosts {
		health[h.Host] = h
	}
	statuses := map[int]agent.Status{}
	if unasked == nil {
		r.Statuses.Each(m.Procs.desc.Extent.NumRanks(), func(rank int, s agent.Status) { statuses[rank] = s })
	}
	here := map[int]bool{}
	for _, s := range m.States {
		here[s.Rank] = true
	}
	for rank := range m.Procs.desc.Extent.NumRanks() {
		host, lacking := lacks[rank]
		if !lacking {
			continue
		}
		h, watched := health[host.String()]
		view := HostState{HostInfo: agent.HostInfo{ID: host}}
		switch {
		case watched && h.Graceful:
		case watched:
			view.State = h.State
			view.Reason = h.Reason
			view.Silence = h.Silence
			silent.add(view)
		case unasked == nil:
			view.State = agent.HostAlive
			silent.add(view)
		default:
			view.State = agent.HostUnknown
			view.Reason = "it did not answer"
			silent.add(view)
		}
		s, known := statuses[rank]
		if here[rank] || known && s.Phase.Terminal() && h.Graceful {
			continue
		}
		if !known || !s.Phase.Terminal() {
			s = agent.Status{Phase: agent.Unknown, Reason: fmt.Sprintf("host %s does not answer", host.Label())}
		}
		m.States = append(m.States, agent.State{ID: m.Procs.desc.ID.String(), Rank: rank, Status: s})
	}
}

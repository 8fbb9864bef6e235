package mesh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// HostMesh is a mesh of hosts, with one dimension, `host`, unless Reshape changes it. It is a
// value: copies and slices share the hosts. Its text is name:host,host@region; Via binds a decoded
// one to a Net.
type HostMesh struct {
	net    *Net
	name   string
	hosts  []subjects.HostID                  // of the region's ranks, in order
	infos  map[subjects.HostID]agent.HostInfo // from the time when they were found; never changed
	region shape.Region
	err    error
	// unconfirmed are hosts that the search found or a gateway knows, but their agents did not answer
	unconfirmed []agent.HostInfo
}

// defaultHosts is the name of a mesh of found hosts.
const defaultHosts = "hosts"

func (n *Net) hostMesh(infos []agent.HostInfo) HostMesh {
	h := HostMesh{
		net: n, name: defaultHosts, infos: map[subjects.HostID]agent.HostInfo{},
		region: shape.Of("host", len(infos)).Region(),
	}
	for _, info := range infos {
		h.hosts = append(h.hosts, info.ID)
		h.infos[info.ID] = info
	}
	return h
}

// Schedulable returns the hosts that accepted procs when found, and the infos of the others, with
// those that the search left out because their agents did not answer. The open hosts have one
// dimension.
func (h HostMesh) Schedulable() (open HostMesh, closed []agent.HostInfo) {
	if h.Err() != nil {
		return h, nil
	}
	var infos []agent.HostInfo
	for _, info := range h.Infos() {
		if info.Mode == agent.ModeOpen || info.Mode == "" { // "": the host was not asked
			infos = append(infos, info)
		} else {
			closed = append(closed, info)
		}
	}
	if len(closed) == 0 {
		return h, h.unconfirmed
	}
	open = h.net.hostMesh(infos)
	open.name = h.name
	return open, append(closed, h.unconfirmed...)
}

// UnschedulableError reports that hosts answer, but accept no procs.
type UnschedulableError struct {
	Hosts []agent.HostInfo
}

func (e *UnschedulableError) Error() string {
	var all []string
	for _, h := range e.Hosts {
		text := fmt.Sprintf("%s is %s", h.Label, h.Mode)
		if h.ModeReason != "" {
			text += " (" + h.ModeReason + ")"
		}
		all = append(all, text)
	}
	return "hosts that take no procs: " + joinSome(all, maxNamed)
}

// HostsOf returns a mesh of the hosts with these IDs. It contacts no host; Attach does.
func (n *Net) HostsOf(name string, hosts ...subjects.HostID) (HostMesh, error) {
	h := HostMesh{net: n, name: name, hosts: slices.Clone(hosts), region: shape.Of("host", len(hosts)).Region()}
	return h, h.validate()
}

// FromAgents returns a mesh of the hosts of these agents.
func (n *Net) FromAgents(name string, agents ...actor.Ref[agent.Agent]) (HostMesh, error) {
	var hosts []subjects.HostID
	for _, a := range agents {
		id, err := subjects.ParseHostID(a.ID().Proc.Mesh.String())
		if err != nil || a.ID() != id.Proc().Actor(agent.Name) {
			return HostMesh{}, fmt.Errorf("host mesh %q: %s: want the agent of a host", name, a.ID())
		}
		hosts = append(hosts, id)
	}
	return n.HostsOf(name, hosts...)
}

// validate refuses an invalid mesh of hosts.
func (h HostMesh) validate() error {
	if err := subjects.CheckLabel("host mesh name", h.name); err != nil {
		return err
	}
	for i, id := range h.hosts {
		if !id.IsValid() {
			return fmt.Errorf("host mesh %q: host %d has no ID", h.name, i)
		}
		if slices.Contains(h.hosts[:i], id) {
			return fmt.Errorf("host mesh %q: host %s is listed twice", h.name, id)
		}
	}
	if n := h.region.NumRanks(); n != len(h.hosts) {
		return &CardinalityError{Want: n, Got: len(h.hosts)}
	}
	return nil
}

// Attach is HostsOf once every host has accepted the program's configuration, in place of that of
// an earlier Attach. A *HostsError names all hosts that refuse or stay silent; then nothing is
// attached.
func (n *Net) Attach(ctx context.Context, name string, hosts ...subjects.HostID) (HostMesh, error) {
	h, err := n.HostsOf(name, hosts...)
	if err != nil {
		return HostMesh{}, err
	}
	ctx, cancel := withTimeout(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	values := n.config.Snapshot()
	infos, errs := eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.HostInfo, error) {
		return agent.Attach.Call(ctx, a, values)
	})
	if err := cmp.Or(h.Err(), h.unreachable(errs)); err != nil {
		return HostMesh{}, err
	}
	h.infos = map[subjects.HostID]agent.HostInfo{}
	for _, info := range infos {
		h.infos[info.ID] = info
	}
	return h, nil
}

// Describe asks every host for its info. A *HostsError names the silent hosts; the result omits
// them.
func (h HostMesh) Describe(ctx context.Context) ([]agent.HostInfo, error) {
	infos, errs := h.askInfos(ctx)
	if err := h.Err(); err != nil {
		return nil, err
	}
	var out []agent.HostInfo
	for i, info := range infos {
		if errs[i] == nil {
			out = append(out, info)
		}
	}
	return out, h.unreachable(errs)
}

func (h HostMesh) askInfos(ctx context.Context) ([]agent.HostInfo, []error) {
	return eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.HostInfo, error) {
		return agent.Info.Call(ctx, a, actor.None{})
	})
}

// unreachable returns a *HostsError with the hosts that have an error; nil: none has.
func (h HostMesh) unreachable(errs []error) error {
	e := &HostsError{Mesh: h.name, Hosts: len(h.hosts)}
	for i, err := range errs {
		if err != nil {
			e.Failed = append(e.Failed, HostError{h.hosts[i], err})
		}
	}
	if len(e.Failed) == 0 {
		return nil
	}
	return e
}

// eachHost asks the agents of a mesh's hosts concurrently. Results are by rank.
func eachHost[R any](
	ctx context.Context, h HostMesh, ask func(context.Context, actor.Ref[agent.Agent]) (R, error),
) ([]R, []error) {
	if h.Err() != nil {
		return nil, nil
	}
	out := make([]R, len(h.hosts))
	errs := make([]error, len(h.hosts))
	fanout.Each(maxConcurrentAsks, h.hosts, func(i int, id subjects.HostID) {
		out[i], errs[i] = ask(ctx, agent.Of(id.Proc()).Via(h.net.proc))
	})
	return out, errs
}

// Err returns the error of a bad handle, or the cause of its Net's end.
func (h HostMesh) Err() error {
	if h.err != nil {
		return h.err
	}
	if h.net == nil && len(h.hosts) > 0 {
		return errUnbound
	}
	if h.net == nil {
		return errNoHosts
	}
	return h.net.endCause()
}

// Name is the name of the mesh.
func (h HostMesh) Name() string { return h.name }

// Extent is the mesh's shape.
func (h HostMesh) Extent() shape.Extent { return h.region.Extent() }

// Hosts are the IDs of the hosts, by rank.
func (h HostMesh) Hosts() []subjects.HostID { return slices.Clone(h.hosts) }

// Infos returns the infos of the hosts when found, by rank. For a host that was not asked there is
// only its ID.
func (h HostMesh) Infos() []agent.HostInfo {
	out := make([]agent.HostInfo, len(h.hosts))
	for i, id := range h.hosts {
		out[i] = agent.HostInfo{ID: id, Label: id.Label()}
		if info, ok := h.infos[id]; ok {
			out[i] = info
		}
	}
	return out
}

// Reshape returns the same hosts, in the same order, in another shape with as many ranks.
func (h HostMesh) Reshape(e shape.Extent) HostMesh {
	h.err = cmp.Or(h.Err(), e.Err())
	if h.err != nil {
		return h
	}
	if e.NumRanks() != len(h.hosts) {
		h.err = fmt.Errorf("reshape %d hosts to %s: %w",
			len(h.hosts), e, &CardinalityError{Want: e.NumRanks(), Got: len(h.hosts)})
		return h
	}
	h.region = e.Region()
	return h
}

// Slice keeps the indices begin to end-1 along a dimension.
func (h HostMesh) Slice(label string, begin, end int) HostMesh {
	h.err = h.Err()
	if h.err != nil {
		return h
	}
	return h.restrict(h.region.Slice(label, begin, end))
}

// restrict keeps the hosts of a region within the mesh's.
func (h HostMesh) restrict(r shape.Region, err error) HostMesh {
	if err != nil {
		h.err = err
		return h
	}
	hosts := make([]subjects.HostID, 0, r.NumRanks())
	for _, base := range r.Ranks() {
		if view, ok := h.region.ViewRank(base); ok {
			hosts = append(hosts, h.hosts[view])
		}
	}
	h.region = r
	h.hosts = hosts
	return h
}

// Equal reports whether two handles have the same hosts in the same shape.
func (h HostMesh) Equal(o HostMesh) bool {
	return h.name == o.name && slices.Equal(h.hosts, o.hosts) && h.region.Equal(o.region)
}

// Shutdown stops the procs on every host, then the hosts. It returns when every host has reported
// the end of its procs. Hosts that are already gone count as shut down; the log and the event name
// them. A repeated Shutdown checks again, and fails as long as a host or proc is left. Its grace
// and its concurrency are the caller's terminate.grace and terminate.concurrency. It is for
// operators, and for the program that allocated the hosts (AGT-13).
func (h HostMesh) Shutdown(ctx context.Context, reason string) error {
	if err := h.Err(); err != nil {
		return err
	}
	emitHostStep(h.net.proc, "hosts.shutdown.attempt", h.name, len(h.hosts), agent.ShuttingDown, nil)
	// A host that leaves cleanly replies first.
	dead, forget, err := watchDeaths(h, func(c presence.Change) bool { return !c.Graceful })
	if err != nil {
		return err
	}
	defer forget()
	var mu sync.Mutex
	before := &HostsError{Mesh: h.name, Hosts: len(h.hosts)}
	request := agent.StopAllRequest{
		Reason: reason, Grace: config.TerminateGrace.Get(h.net.config),
		MaxConcurrent: config.TerminateConcurrency.Get(h.net.config),
	}
	stop := func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.StopSummary, error) {
		s, err := askAlive(ctx, dead, a, func(ctx context.Context) (agent.StopSummary, error) {
			return agent.StopAll.CallUrgent(ctx, a, request)
		})
		if isUnreachable(err) {
			mu.Lock()
			defer mu.Unlock()
			before.Failed = append(before.Failed, HostError{subjects.HostID(a.ID().Proc.Mesh), err})
			return agent.StopSummary{}, nil
		}
		return s, err
	}
	_, err = collectSummary(ctx, h, "shutdown", stop)
	if err == nil {
		err = h.net.controllers.releaseHosts(ctx, h.hosts, func(ownedController) bool { return true })
	}
	if err != nil {
		emitHostStep(h.net.proc, "hosts.shutdown.failed", h.name, len(h.hosts), agent.Failed, err)
		return err
	}
	var were error
	if len(before.Failed) > 0 {
		slices.SortFunc(before.Failed, func(a, b HostError) int {
			return cmp.Compare(slices.Index(h.hosts, a.Host), slices.Index(h.hosts, b.Host))
		})
		were = fmt.Errorf("hosts were already gone: %w", before)
		log := h.net.proc.Log()
		log.Warn().Err(were).Msg("hosts are shut down")
	}
	emitHostStep(h.net.proc, "hosts.shutdown.success", h.name, len(h.hosts), agent.Stopped, were)
	return nil
}

// deathContexts has a context for each host. It ends, with the reason, when this program considers
// the host dead: such a host never replies, and the server may not report that.
type deathContexts map[subjects.HostID]context.Context

// watchDeaths watches the hosts until forget is called. counts selects the deaths that count.
func watchDeaths(
	h HostMesh, counts func(presence.Change) bool,
) (dead deathContexts, forget func(), err error) {
	watcher, err := h.net.controllers.hostWatcher()
	if err != nil {
		return nil, nil, err
	}
	dead = deathContexts{}
	ends := map[subjects.HostID]context.CancelCauseFunc{}
	for _, id := range h.hosts {
		dead[id], ends[id] = context.WithCancelCause(context.Background())
	}
	leave := watcher.Watch(h.hosts, func(c presence.Change) {
		if c.State == presence.Dead && counts(c) {
			ends[c.Host](fmt.Errorf("%w: %s", errHostDead, c.Reason))
		}
	})
	return dead, func() {
		leave()
		for _, end := range ends {
			end(nil)
		}
	}, nil
}

// errHostDead is the error of a host that is dead.
var errHostDead = errors.New("the host is dead")

// askAlive asks the agent of a host until it answers or is dead; a death is the error.
func askAlive[R any](
	ctx context.Context, dead deathContexts, a actor.Ref[agent.Agent], ask func(context.Context) (R, error),
) (R, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	died := dead[subjects.HostID(a.ID().Proc.Mesh)]
	defer context.AfterFunc(died, cancel)()
	r, err := ask(ctx)
	if err != nil {
		err = cmp.Or(context.Cause(died), err)
	}
	return r, err
}

// collectSummary asks every host to stop procs and adds up the results. A remaining proc is an
// error.
func collectSummary(
	ctx context.Context, h HostMesh, verb string,
	ask func(context.Context, actor.Ref[agent.Agent]) (agent.StopSummary, error),
) (agent.StopSummary, error) {
	if err := h.Err(); err != nil {
		return agent.StopSummary{}, err
	}
	ctx, cancel := withTimeout(ctx, config.MeshStopTimeout.Get(h.net.config))
	defer cancel()
	all, errs := eachHost(ctx, h, ask)
	var sum agent.StopSummary
	for i, s := range all {
		sum = sum.Merge(s)
		if errs[i] == nil {
			errs[i] = s.Err()
		}
	}
	if err := h.unreachable(errs); err != nil {
		return sum, fmt.Errorf("%s: %w", verb, err)
	}
	return sum, nil
}

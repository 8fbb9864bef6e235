package mesh

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/presence"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// HostMesh is some hosts in a shape: a mesh of one dimension, `host`, unless Reshape says otherwise. It is
// a value: copies and slices speak of the same hosts. As text, which Via binds to a Net again, it is
// name:host,host@region.
type HostMesh struct {
	net    *Net
	name   string
	hosts  []subjects.HostID                  // of the region's ranks, in order
	infos  map[subjects.HostID]agent.HostInfo // what was said when they were found; never changed
	region shape.Region
	err    error
}

// defaultHosts is the name of a mesh of hosts that was found, not made.
const defaultHosts = "hosts"

func (n *Net) hostMesh(infos []agent.HostInfo) HostMesh {
	h := HostMesh{net: n, name: defaultHosts, infos: map[subjects.HostID]agent.HostInfo{}, region: shape.Of("host", len(infos)).Region()}
	for _, info := range infos {
		h.hosts = append(h.hosts, info.ID)
		h.infos[info.ID] = info
	}
	return h
}

// Open is the hosts that take procs, as they said when they were found, and the introductions of those that do not.
// The open hosts have one dimension, as those that were found.
func (h HostMesh) Open() (open HostMesh, closed []agent.HostInfo) {
	if h.Err() != nil {
		return h, nil
	}
	var infos []agent.HostInfo
	for _, info := range h.Infos() {
		if info.Mode == agent.Open || info.Mode == "" { // a host that was not asked
			infos = append(infos, info)
		} else {
			closed = append(closed, info)
		}
	}
	if len(closed) == 0 {
		return h, nil
	}
	open = h.net.hostMesh(infos)
	open.name = h.name
	return open, closed
}

// ClosedError reports that hosts answer, but take no procs.
type ClosedError struct {
	Hosts []agent.HostInfo
}

func (e *ClosedError) Error() string {
	var all []string
	for i, h := range e.Hosts {
		if i == maxNamed {
			all = append(all, fmt.Sprintf("and %d more", len(e.Hosts)-i))
			break
		}
		text := fmt.Sprintf("%s is %s", h.Label, h.Mode)
		if h.Why != "" {
			text += " (" + h.Why + ")"
		}
		all = append(all, text)
	}
	return "hosts that take no procs: " + strings.Join(all, ", ")
}

// HostsOf is a mesh of the hosts with these IDs. Nobody is asked whether they are there: Attach does.
func (n *Net) HostsOf(name string, hosts ...subjects.HostID) (HostMesh, error) {
	h := HostMesh{net: n, name: name, hosts: slices.Clone(hosts), region: shape.Of("host", len(hosts)).Region()}
	return h, h.check()
}

// FromAgents is a mesh of the hosts whose agents these are.
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

// check refuses what is no mesh of hosts.
func (h HostMesh) check() error {
	if err := subjects.CheckLabel("host mesh name", h.name); err != nil {
		return err
	}
	for i, id := range h.hosts {
		switch {
		case !id.IsValid():
			return fmt.Errorf("host mesh %q: host %d has no ID", h.name, i)
		case slices.Contains(h.hosts[:i], id):
			return fmt.Errorf("host mesh %q: host %s is listed twice", h.name, id)
		}
	}
	if n := h.region.NumRanks(); n != len(h.hosts) {
		return &CardinalityError{Want: n, Got: len(h.hosts)}
	}
	return nil
}

// Attach is HostsOf once every host has answered, all at the same time. One that does not is an
// *AttachError that names all of those: nothing is attached then.
func (n *Net) Attach(ctx context.Context, name string, hosts ...subjects.HostID) (HostMesh, error) {
	h, err := n.HostsOf(name, hosts...)
	if err != nil {
		return HostMesh{}, err
	}
	ctx, cancel := within(ctx, config.AttachTimeout.Get(n.config))
	defer cancel()
	infos, err := h.Describe(ctx)
	if err != nil {
		return HostMesh{}, err
	}
	h.infos = map[subjects.HostID]agent.HostInfo{}
	for _, info := range infos {
		h.infos[info.ID] = info
	}
	return h, nil
}

// Describe asks every host how it is. Hosts that do not answer are an *AttachError, and left out.
func (h HostMesh) Describe(ctx context.Context) ([]agent.HostInfo, error) {
	infos, errs := eachHost(ctx, h, func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.HostInfo, error) {
		return agent.Info.Call(ctx, a, actor.None{})
	})
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

// unreachable names the hosts with an error; nil when there is none.
func (h HostMesh) unreachable(errs []error) error {
	e := &AttachError{Mesh: h.name, Hosts: len(h.hosts)}
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

// maxHostsAsked is how many hosts are asked at a time.
const maxHostsAsked = 64

// eachHost asks the agents of a mesh's hosts, many at a time. What comes back is by rank.
func eachHost[R any](ctx context.Context, h HostMesh, ask func(context.Context, actor.Ref[agent.Agent]) (R, error)) ([]R, []error) {
	if h.Err() != nil {
		return nil, nil
	}
	out, errs := make([]R, len(h.hosts)), make([]error, len(h.hosts))
	slots := make(chan struct{}, maxHostsAsked)
	var wg sync.WaitGroup
	for i, id := range h.hosts {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			out[i], errs[i] = ask(ctx, agent.Of(id.Proc()).Via(h.net.proc))
		})
	}
	wg.Wait()
	return out, errs
}

// Err is the error a bad handle carries, or why its Net has ended.
func (h HostMesh) Err() error {
	switch {
	case h.err != nil:
		return h.err
	case h.net == nil:
		return errNoHosts
	}
	return h.net.ended()
}

// Name is what the mesh is called.
func (h HostMesh) Name() string { return h.name }

// Extent is the mesh's shape.
func (h HostMesh) Extent() shape.Extent { return h.region.Extent() }

// Hosts are the IDs of the hosts, by rank.
func (h HostMesh) Hosts() []subjects.HostID { return slices.Clone(h.hosts) }

// Infos are the introductions of the hosts as they were found, by rank; of a host that was not asked
// there is its ID alone.
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

// Reshape is the same hosts, in the same order, in another shape with as many ranks.
func (h HostMesh) Reshape(e shape.Extent) HostMesh {
	if h.err = cmp.Or(h.Err(), e.Err()); h.err != nil {
		return h
	}
	if e.NumRanks() != len(h.hosts) {
		h.err = fmt.Errorf("reshape %d hosts to %s: %w", len(h.hosts), e, &CardinalityError{Want: e.NumRanks(), Got: len(h.hosts)})
		return h
	}
	h.region = e.Region()
	return h
}

// Slice keeps the indices begin to end-1 along a dimension.
func (h HostMesh) Slice(label string, begin, end int) HostMesh {
	if h.err = h.Err(); h.err != nil {
		return h
	}
	return h.narrow(h.region.Slice(label, begin, end))
}

// narrow keeps the hosts of a region within the mesh's.
func (h HostMesh) narrow(r shape.Region, err error) HostMesh {
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
	h.region, h.hosts = r, hosts
	return h
}

// Equal reports whether two handles speak of the same hosts in the same shape.
func (h HostMesh) Equal(o HostMesh) bool {
	return h.name == o.name && slices.Equal(h.hosts, o.hosts) && h.region.Equal(o.region)
}

// Drain has the procs on every host moved to spare ones, where the policies of their meshes can, and stops the others,
// whoever owns them; the hosts stay. Grace 0 is the hosts' own.
func (h HostMesh) Drain(ctx context.Context, reason string, grace time.Duration) (agent.Summary, error) {
	return h.summary(ctx, "drain", func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.Summary, error) {
		return agent.Drain.Call(ctx, a, agent.Draining{Reason: reason, Grace: grace})
	})
}

// Shutdown stops the procs on every host, and then the hosts. It is done when every host has said that
// its procs have ended; hosts that are gone already are. Asking again looks again: it fails as long as
// something is left.
func (h HostMesh) Shutdown(ctx context.Context, reason string) error {
	if err := h.Err(); err != nil {
		return err
	}
	h.net.step("hosts.shutdown.attempt", h.name, len(h.hosts), agent.ShuttingDown, nil)
	dead, forget, err := h.deaths(func(c presence.Change) bool { return !c.Left }) // a host that leaves in order answers before
	if err != nil {
		return err
	}
	defer forget()
	_, err = h.summary(ctx, "shutdown", func(ctx context.Context, a actor.Ref[agent.Agent]) (agent.Summary, error) {
		ctx, over := dead.until(ctx, a)
		defer over()
		s, err := agent.StopAll.Urge(ctx, a, agent.StoppingAll{Reason: reason})
		if gone(err) || err != nil && dead.has(subjects.HostID(a.ID().Proc.Mesh)) {
			return agent.Summary{}, nil
		}
		return s, err
	})
	if err == nil {
		err = h.net.giveBack(ctx, h.hosts, func(owned) bool { return true })
	}
	if err != nil {
		h.net.step("hosts.shutdown.failed", h.name, len(h.hosts), agent.Failed, err)
		return err
	}
	h.net.step("hosts.shutdown.success", h.name, len(h.hosts), agent.Stopped, nil)
	return nil
}

// deaths has a context for each host, which ends when this program knows that the host is dead: it answers nobody, and
// the server may not say so.
type deaths map[subjects.HostID]context.Context

// deaths watches the hosts until forget is called. counts picks the deaths that count.
func (h HostMesh) deaths(counts func(presence.Change) bool) (dead deaths, forget func(), err error) {
	watcher, err := h.net.watcher()
	if err != nil {
		return nil, nil, err
	}
	dead, ends := deaths{}, map[subjects.HostID]context.CancelFunc{}
	for _, id := range h.hosts {
		dead[id], ends[id] = context.WithCancel(context.Background())
	}
	leave := watcher.Watch(h.hosts, func(c presence.Change) {
		if c.State == presence.Dead && counts(c) {
			ends[c.Host]()
		}
	})
	return dead, func() {
		leave()
		for _, end := range ends {
			end()
		}
	}, nil
}

// has reports whether a host is dead.
func (d deaths) has(h subjects.HostID) bool { return d[h] != nil && d[h].Err() != nil }

// until ends a context with the host whose agent is asked.
func (d deaths) until(ctx context.Context, a actor.Ref[agent.Agent]) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	died := d[subjects.HostID(a.ID().Proc.Mesh)]
	if died == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(died, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// summary asks every host to stop something and adds up what came of it. What is left is an error.
func (h HostMesh) summary(ctx context.Context, verb string, ask func(context.Context, actor.Ref[agent.Agent]) (agent.Summary, error)) (agent.Summary, error) {
	if err := h.Err(); err != nil {
		return agent.Summary{}, err
	}
	ctx, cancel := within(ctx, config.MeshStopDeadline.Get(h.net.config))
	defer cancel()
	all, errs := eachHost(ctx, h, ask)
	var sum agent.Summary
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

package system

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// maxNameRequests bounds the requests that wait for a query of names.
	maxNameRequests = 1 << 14
	// nameQueryPause is the time until the next query after a refusal, because refused callers
	// repeat their requests.
	nameQueryPause = time.Second
)

// reservation keeps a name for a program until its release, or until limits.reservation has passed.
// By then the hosts know the mesh of that name, and later takers find it.
type reservation struct {
	NameReservation
	timer *list.Element
}

// reserve gives a name to a program if no world, no detached mesh and no mesh on a host has it
// (WORLD-17). A repeated reservation changes nothing.
func (st *state) reserve(e reserve) {
	name := e.ID.Label()
	if r := st.reserved.byName[name]; r != nil && r.ID == e.ID {
		st.answer(e.from, nil, nil)
		return
	}
	err := st.checkAccepting(name)
	if !e.ID.IsValid() || !e.By.IsValid() {
		err = errors.New("cannot reserve a name: want the ID of a mesh and of the program's proc")
	}
	if w := st.worlds[name]; err == nil && w != nil {
		err = &NameTakenError{name, kindWorld, w.meshText(name)}
	}
	if err == nil {
		var waits bool
		waits, err = st.checkName(name, e)
		if waits {
			return
		}
	}
	if err == nil {
		st.reserved.add(e.NameReservation)
		st.emit(saveRecord{Record{Name: name, Reserved: &e.NameReservation}})
	}
	st.answer(e.from, nil, err)
}

// reservations are the reserved names (WORLD-17).
type reservations struct {
	*core
	byName map[string]*reservation
	timers timerQueue
}

// add starts a reservation.
func (rs *reservations) add(r NameReservation) {
	x := &reservation{NameReservation: r}
	x.timer = rs.timers.start(rs.now, x)
	rs.byName[r.ID.Label()] = x
}

// release ends a reservation. An absent reservation has ended already.
func (rs *reservations) release(e release) {
	if r := rs.byName[e.ID.Label()]; r != nil && r.ID == e.ID {
		rs.drop(r)
	}
	rs.answer(e.from, nil, nil)
}

// drop frees a reserved name.
func (rs *reservations) drop(r *reservation) {
	rs.timers.stop(&r.timer)
	delete(rs.byName, r.ID.Label())
	rs.emit(deleteRecord{world: r.ID.Label()})
}

// dropAll frees all reserved names.
func (rs *reservations) dropAll() {
	for _, name := range slices.Sorted(maps.Keys(rs.byName)) {
		rs.drop(rs.byName[name])
	}
}

// expire frees the names whose reservations have lasted for this long.
func (rs *reservations) expire(lifetime time.Duration) {
	for {
		r, ok := rs.timers.expired(rs.now, lifetime)
		if !ok {
			return
		}
		rs.drop(r.(*reservation))
	}
}

// nameCheck is the hosts' answer for a name.
type nameCheck struct {
	holder   *NameTakenError // a live mesh or world of that name; nil: none
	err      error           // some hosts did not answer
	tooEarly error           // an unsaved reservation of the former controller may still be valid
}

// checkName checks a request for a new world or a reservation (WORLD-17). waits: the request
// returns once the hosts have reported the holder of the name.
func (st *state) checkName(name string, request any) (waits bool, err error) {
	if st.worlds[name] != nil {
		return false, nil
	}
	if st.nameCheck == nil {
		st.emit(queryName{name, request})
		return true, nil
	}
	return false, st.nameCheck.refusal(request)
}

// refusal returns the error for a request that cannot have the name. A share on a host may belong
// to this very world, unsaved by an earlier controller; so it blocks only programs.
func (c nameCheck) refusal(request any) error {
	_, program := request.(reserve)
	_, member := request.(join)
	if c.holder != nil && (program || c.holder.Kind == kindMesh) {
		return c.holder
	}
	if c.err == nil && !member {
		return c.tooEarly
	}
	return c.err
}

// nameQueue holds requests until the hosts have reported the holders of their names.
type nameQueue struct {
	waiting []queryName // for the next query
	asked   []queryName // of the query under way
	busy    bool        // a query, or the pause after it, is under way
}

// dropJoins refuses the waiting joins of a host that has left.
func (q *nameQueue) dropJoins(id subjects.HostID) {
	dropped := func(e queryName) bool {
		j, isJoin := e.request.(join)
		if !isJoin || j.Host.ID != id {
			return false
		}
		j.from.reply(nil, errors.New("the host has left"))
		return true
	}
	q.waiting = slices.DeleteFunc(q.waiting, dropped)
	q.asked = slices.DeleteFunc(q.asked, dropped)
}

// queueName makes a request wait for the next query of names.
func (c *Controller) queueName(ctx *actor.Context, e queryName) {
	if n := len(c.names.waiting); n == maxNameRequests {
		err := fmt.Errorf("cannot check the name %s: %d requests wait already: try again", e.name, n)
		c.handle(ctx, nameChecked{e.request, nameCheck{err: err}})
		return
	}
	c.names.waiting = append(c.names.waiting, e)
	c.queryNames(ctx)
}

// queryNames queries the hosts once for all waiting requests.
func (c *Controller) queryNames(ctx *actor.Context) {
	if c.names.busy || len(c.names.waiting) == 0 {
		return
	}
	c.names = nameQueue{asked: c.names.waiting, busy: true}
	p := ctx.Proc()
	quiet := config.DiscoveryQuietPeriod.Get(c.service.opts.Config)
	early := c.tooEarlyError()
	ctx.Go(func(life context.Context) func(*actor.Context) {
		work, cancel := context.WithTimeout(life, hostInventoryTimeout)
		defer cancel()
		inUse, err := NamesInUse(work, p, quiet)
		if err != nil {
			err = fmt.Errorf("cannot ask all hosts for the holder of the name: %w", err)
		}
		holders := holdersByName(inUse)
		return func(ctx *actor.Context) {
			pause := time.Duration(0)
			var checked []any
			for _, q := range c.names.asked {
				check := nameCheck{holders[q.name], err, early}
				if check.refusal(nil) != nil {
					pause = nameQueryPause
				}
				checked = append(checked, nameChecked{q.request, check})
			}
			c.names.asked = nil
			c.handle(ctx, checked...)
			ctx.After(pause, func(ctx *actor.Context) {
				c.names.busy = false
				c.queryNames(ctx)
			})
		}
	})
}

// tooEarlyError returns an error while unsaved reservations of the previous controller may still be
// valid.
func (c *Controller) tooEarlyError() error {
	if !c.directSuccessor || c.st.durable {
		return nil
	}
	left := time.Until(c.startedAt.Add(c.st.reservation)).Round(time.Second)
	if left <= 0 {
		return nil
	}
	return fmt.Errorf("the former system controller may have reserved the name: try again in %s", left)
}

// holdersByName returns the holder of each name, a mesh before a world.
func holdersByName(inUse []NameTakenError) map[string]*NameTakenError {
	holders := map[string]*NameTakenError{}
	for i, m := range inUse {
		if holders[m.Name] == nil || m.Kind == kindMesh {
			holders[m.Name] = &inUse[i]
		}
	}
	return holders
}

// NamesInUse lists the names of live meshes and worlds, as their hosts report them, each with its
// holder. A name with several holders appears once for each. quiet ends the query after this long
// without another host's answer. A host without an agent on the bus has no live meshes. One that a
// gateway knows, and that does not answer, is an error.
func NamesInUse(ctx context.Context, p *actor.Proc, quiet time.Duration) ([]NameTakenError, error) {
	hosts, silent, err := agent.DiscoverListedHosts(ctx, p.Bus(), p.Space(), quiet)
	if err != nil {
		return nil, err
	}
	for _, id := range silent {
		hosts = append(hosts, agent.HostInfo{ID: id, Label: id.Label()})
	}
	said, errs := askHosts(hosts, func(h agent.HostInfo) ([]agent.State, error) {
		states, err := agent.Get.Call(ctx, agent.Of(h.ID.Proc()).Via(p), agent.GetRequest{})
		if errors.Is(err, actor.ErrNoProc) {
			return nil, nil
		}
		if err != nil {
			err = fmt.Errorf("cannot list the procs of host %s: %w", h.Label, err)
		}
		return states, err
	})
	var out []NameTakenError
	seen := map[string]bool{}
	for _, states := range said {
		kinds := map[string]string{} // by mesh; the state of a mesh's first rank describes the mesh
		for _, s := range states {
			if s.Mesh != nil {
				kinds[s.ID] = kindOf(*s.Mesh)
			}
			if kinds[s.ID] == "" || s.Status.Phase.Terminal() || seen[s.ID] {
				continue
			}
			if id, bad := subjects.ParseMeshID(s.ID); bad == nil {
				seen[s.ID] = true
				out = append(out, NameTakenError{Name: id.Label(), Kind: kinds[s.ID], Holder: s.ID})
			}
		}
	}
	return out, errors.Join(errs...)
}

// Kinds of name holders.
const (
	kindMesh    = "mesh"
	kindWorld   = "world"
	kindProgram = "program"
)

func kindOf(m agent.Mesh) string {
	if m.World != nil {
		return kindWorld
	}
	return kindMesh
}

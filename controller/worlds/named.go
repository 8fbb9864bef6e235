package worlds

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// reservation keeps a name for a program, until that releases it or limits.reservation has passed. By then the hosts
// know the mesh that has the name, and whoever takes it finds that.
type reservation struct {
	Reserving
	clock *list.Element
}

// reserve gives a name to a program when no world, no detached mesh and no mesh on a host has it (WORLD-17). The
// same reservation again changes nothing.
func (st *state) reserve(e reserve) {
	name := e.ID.Label()
	if r := st.reserved[name]; r != nil && r.ID == e.ID {
		st.answer(e.from, nil, nil)
		return
	}
	err := st.admits(name)
	switch w := st.worlds[name]; {
	case !e.ID.IsValid() || !e.By.IsValid():
		err = errors.New("reserve a name: want the ID of a mesh, and who takes it")
	case err != nil:
	case w != nil:
		err = &NameTakenError{name, kindWorld, w.meshText(name)}
	case st.parks(name, e.from, e):
		return
	default:
		st.keepName(e.Reserving)
		st.do(save{Record{Name: name, Reserved: &e.Reserving}})
	}
	st.answer(e.from, nil, err)
}

// keepName begins a reservation.
func (st *state) keepName(r Reserving) {
	x := &reservation{Reserving: r}
	x.clock = st.keeping.start(st.now, x)
	st.reserved[r.ID.Label()] = x
}

// release ends a reservation. One that is not there has ended already.
func (st *state) release(e release) {
	if r := st.reserved[e.ID.Label()]; r != nil && r.ID == e.ID {
		st.unreserve(r)
	}
	st.answer(e.from, nil, nil)
}

// unreserve lets others have a name.
func (st *state) unreserve(r *reservation) {
	st.keeping.stop(&r.clock)
	delete(st.reserved, r.ID.Label())
	st.do(forget{world: r.ID.Label()})
}

// maxParked bounds who waits for names to be asked for.
const maxParked = 1 << 14

// parks has who would begin a world, or reserves a name, wait until the hosts have said who has the name (WORLD-17).
func (st *state) parks(name string, from ticket, who any) bool {
	if !st.names || st.free == name || st.worlds[name] != nil {
		return false
	}
	if st.parked == maxParked {
		st.answer(from, nil, fmt.Errorf("world %s: %d others wait until the names of theirs are known to be free: want it asked again", name, maxParked))
		return true
	}
	if _, asked := st.asking[name]; !asked {
		st.do(askName{name})
	}
	st.asking[name] = append(st.asking[name], who)
	st.parked++
	return true
}

// named hears who has waited for a name again, or refuses them.
func (st *state) named(e named) {
	parked := st.asking[e.name]
	delete(st.asking, e.name)
	st.parked -= len(parked)
	st.free = e.name
	for _, who := range parked {
		why := e.refuses(who)
		switch x := who.(type) {
		case upsert:
			if why == nil {
				st.upsert(x)
			} else {
				st.answer(x.from, nil, why)
			}
		case join:
			if why == nil {
				st.join(x)
			} else {
				st.refuse(x, why)
			}
		case reserve:
			if why == nil {
				st.reserve(x)
			} else {
				st.answer(x.from, nil, why)
			}
		}
	}
	st.free = ""
}

// refuses says why one of those who waited cannot have the name. What hosts have of a world may be of this very one,
// which an earlier controller has not saved: only a program must not take its name.
func (e named) refuses(who any) error {
	_, program := who.(reserve)
	_, member := who.(join)
	switch {
	case e.holder != nil && (program || e.holder.Kind == kindMesh):
		return e.holder
	case e.err == nil && !member:
		return e.early
	}
	return e.err
}

// nameless refuses all who wait for names, and ends all reservations.
func (st *state) nameless(why error) {
	for _, name := range slices.Sorted(maps.Keys(st.asking)) {
		st.named(named{name: name, err: why})
	}
	for _, name := range slices.Sorted(maps.Keys(st.reserved)) {
		st.unreserve(st.reserved[name])
	}
}

// unpark refuses a host that has left while it waited for a name.
func (st *state) unpark(id subjects.HostID) {
	for _, name := range slices.Sorted(maps.Keys(st.asking)) {
		st.asking[name] = slices.DeleteFunc(st.asking[name], func(who any) bool {
			j, is := who.(join)
			if is = is && j.Host.ID == id; is {
				st.parked--
				st.answer(j.from, nil, errors.New("it has left"))
			}
			return is
		})
	}
}

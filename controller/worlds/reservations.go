package worlds

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// reservation keeps a name for a program until its release, or until limits.reservation has passed.
// By then the hosts know the mesh of that name, and later takers find it.
type reservation struct {
	NameReservation
	timer *list.Element
}

// reserve gives a name to a program when no world, no detached mesh and no mesh on a host has it (WORLD-17). The
// same reservation again changes nothing.
func (st *state) reserve(e reserve) {
	name := e.ID.Label()
	if r := st.reserved[name]; r != nil && r.ID == e.ID {
		st.answer(e.from, nil, nil)
		return
	}
	err := st.checkAccepting(name)
	switch w := st.worlds[name]; {
	case !e.ID.IsValid() || !e.By.IsValid():
		err = errors.New("reserve a name: want the ID of a mesh, and who takes it")
	case err != nil:
	case w != nil:
		err = &NameTakenError{name, kindWorld, w.meshText(name)}
	case st.awaitsName(name, e.from, e):
		return
	default:
		st.addReservation(e.NameReservation)
		st.emit(saveRecord{Record{Name: name, Reserved: &e.NameReservation}})
	}
	st.answer(e.from, nil, err)
}

// addReservation begins a reservation.
func (st *state) addReservation(r NameReservation) {
	x := &reservation{NameReservation: r}
	x.timer = st.reservationTimers.start(st.now, x)
	st.reserved[r.ID.Label()] = x
}

// release ends a reservation. An absent reservation has ended already.
func (st *state) release(e release) {
	if r := st.reserved[e.ID.Label()]; r != nil && r.ID == e.ID {
		st.dropReservation(r)
	}
	st.answer(e.from, nil, nil)
}

// dropReservation lets others have a name.
func (st *state) dropReservation(r *reservation) {
	st.reservationTimers.stop(&r.timer)
	delete(st.reserved, r.ID.Label())
	st.emit(deleteRecord{world: r.ID.Label()})
}

// maxNameWaiters bounds the waiters for a query of names.
const maxNameWaiters = 1 << 14

// awaitsName makes a new world or a reservation wait until the hosts have reported the holder of
// the name (WORLD-17).
func (st *state) awaitsName(name string, from ticket, who any) bool {
	if !st.names || st.freeName == name || st.worlds[name] != nil {
		return false
	}
	if st.nameWaiterCount == maxNameWaiters {
		st.answer(from, nil, fmt.Errorf("world %s: %d others wait until the names of theirs are known to be free: want it asked again", name, maxNameWaiters))
		return true
	}
	if _, asked := st.nameWaiters[name]; !asked {
		st.emit(queryName{name})
	}
	st.nameWaiters[name] = append(st.nameWaiters[name], who)
	st.nameWaiterCount++
	return true
}

// handleNameResult resumes or refuses the waiters for a name.
func (st *state) handleNameResult(e nameResult) {
	parked := st.nameWaiters[e.name]
	delete(st.nameWaiters, e.name)
	st.nameWaiterCount -= len(parked)
	st.freeName = e.name
	for _, who := range parked {
		why := e.refusal(who)
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
				st.rejectJoin(x, why)
			}
		case reserve:
			if why == nil {
				st.reserve(x)
			} else {
				st.answer(x.from, nil, why)
			}
		}
	}
	st.freeName = ""
}

// refusal is the reason why a waiter cannot have the name. The hosts' shares may belong to this
// very world, unsaved by an earlier controller, so they block only programs.
func (e nameResult) refusal(who any) error {
	_, program := who.(reserve)
	_, member := who.(join)
	switch {
	case e.holder != nil && (program || e.holder.Kind == kindMesh):
		return e.holder
	case e.err == nil && !member:
		return e.tooEarly
	}
	return e.err
}

// failNameWaiters refuses all waiters for names, and ends all reservations.
func (st *state) failNameWaiters(why error) {
	for _, name := range slices.Sorted(maps.Keys(st.nameWaiters)) {
		st.handleNameResult(nameResult{name: name, err: why})
	}
	for _, name := range slices.Sorted(maps.Keys(st.reserved)) {
		st.dropReservation(st.reserved[name])
	}
}

// dropNameWaiter refuses a host that left while it waited for a name.
func (st *state) dropNameWaiter(id subjects.HostID) {
	for _, name := range slices.Sorted(maps.Keys(st.nameWaiters)) {
		st.nameWaiters[name] = slices.DeleteFunc(st.nameWaiters[name], func(who any) bool {
			j, is := who.(join)
			if is = is && j.Host.ID == id; is {
				st.nameWaiterCount--
				st.answer(j.from, nil, errors.New("it has left"))
			}
			return is
		})
	}
}

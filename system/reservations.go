package system

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

// reserve gives a name to a program if no world, no detached mesh and no mesh on a host has it
// (WORLD-17). A repeated reservation changes nothing.
func (st *state) reserve(e reserve) {
	name := e.ID.Label()
	if r := st.reserved[name]; r != nil && r.ID == e.ID {
		st.answer(e.from, nil, nil)
		return
	}
	err := st.checkAccepting(name)
	switch w := st.worlds[name]; {
	case !e.ID.IsValid() || !e.By.IsValid():
		err = errors.New("cannot reserve a name: want the ID of a mesh and of the program's proc")
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

// addReservation starts a reservation.
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

// dropReservation frees a reserved name.
func (st *state) dropReservation(r *reservation) {
	st.reservationTimers.stop(&r.timer)
	delete(st.reserved, r.ID.Label())
	st.emit(deleteRecord{world: r.ID.Label()})
}

// maxNameWaiters bounds the waiters for a query of names.
const maxNameWaiters = 1 << 14

// awaitsName makes a new world or a reservation wait until the hosts have reported the holder of
// the name (WORLD-17). false: it need not wait.
func (st *state) awaitsName(name string, from ticket, who any) bool {
	if !st.names || st.freeName == name || st.worlds[name] != nil {
		return false
	}
	if st.nameWaiterCount == maxNameWaiters {
		st.answer(from, nil, fmt.Errorf("cannot check the name %s: %d requests wait already: try again",
			name, maxNameWaiters))
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

// refusal returns the error for a waiter that cannot have the name. A share on a host may belong to
// this very world, unsaved by an earlier controller; so it blocks only programs.
func (e nameResult) refusal(who any) error {
	_, program := who.(reserve)
	_, member := who.(join)
	if e.holder != nil && (program || e.holder.Kind == kindMesh) {
		return e.holder
	}
	if e.err == nil && !member {
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
			j, isJoin := who.(join)
			if !isJoin || j.Host.ID != id {
				return false
			}
			st.nameWaiterCount--
			st.answer(j.from, nil, errors.New("the host has left"))
			return true
		})
	}
}

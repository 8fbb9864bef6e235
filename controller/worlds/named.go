package worlds

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/castnet-io/castnet/subjects"
)

// maxParked bounds who waits for names to be asked for.
const maxParked = 1 << 14

// parks has who would begin a world wait until it is known that nobody else has its name (WORLD-17).
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
		switch x := who.(type) {
		case upsert:
			if e.err == nil {
				st.upsert(x)
			} else {
				st.answer(x.from, nil, e.err)
			}
		case join:
			if e.err == nil {
				st.join(x)
			} else {
				st.answer(x.from, nil, e.err)
			}
		}
	}
	st.free = ""
}

// nameless refuses all who wait for names.
func (st *state) nameless(why error) {
	for _, name := range slices.Sorted(maps.Keys(st.asking)) {
		st.named(named{name, why})
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

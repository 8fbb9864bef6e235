package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// names are the philosophers' names by rank.
var names = [...]string{"Plato", "Hypatia", "Kant", "Laozi", "Arendt"}

// table is the observed state of the dinner.
type table struct {
	mu      sync.Mutex
	moments []Moment
}

func (t *table) add(m Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments = append(t.moments, m)
}

// String returns the table as one line: activities and meals.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var does [len(names)]Doing
	var meals [len(names)]int
	for _, m := range t.moments {
		if m.Does == Thinks {
			meals[m.Seat]++
		}
		if does[m.Seat] != Dies {
			does[m.Seat] = m.Does
		}
	}
	var all []string
	for seat, name := range names {
		all = append(all, fmt.Sprintf("%c %s %2d", []rune("○◐●†")[does[seat]], name, meals[seat]))
	}
	return strings.Join(all, "   ")
}

// over reports whether every philosopher is full or dead.
func (t *table) over(meals int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := map[int]bool{}
	eaten := map[int]int{}
	for _, m := range t.moments {
		if m.Does == Thinks {
			eaten[m.Seat]++
		}
		done[m.Seat] = done[m.Seat] || m.Does == Dies || eaten[m.Seat] == meals
	}
	return len(done) == len(names) && !slices.Contains(slices.Collect(maps.Values(done)), false)
}

// check replays the dinner by the clock: one hand per fork, and no extra meals.
func (t *table) check(meals int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortStableFunc(t.moments, func(a, b Moment) int { return a.At.Compare(b.At) })
	held := map[int]int{}  // fork to seat
	eaten := map[int]int{} // seat to meals
	for _, m := range t.moments {
		first, second := forks(m.Seat, len(names))
		for _, f := range []int{first, second} {
			holder, taken := held[f]
			if m.Does == Eats && taken {
				return fmt.Errorf("%s eats with fork %d while %s does", names[m.Seat], f, names[holder])
			}
			if m.Does == Eats {
				held[f] = m.Seat
			} else if taken && holder == m.Seat {
				delete(held, f)
			}
		}
		if m.Does == Thinks {
			eaten[m.Seat]++
		}
	}
	for seat, n := range eaten {
		if n > meals {
			return fmt.Errorf("%s has had %d meals: want %d", names[seat], n, meals)
		}
	}
	return nil
}

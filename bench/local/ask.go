package local

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// askers is how many goroutines ask at once.
const askers = 64

// answerer answers with what it was asked.
type answerer struct{ unstarted }

func (answerer) Receive(_ Context, m any) any { return m }

// askOne asks with one question in flight. The result is the median in nanoseconds.
func askOne(st *stage) (float64, error) {
	to := st.Spawn(answerer{})
	var m any = &empty{}
	times := make([]time.Duration, 0, st.n)
	for range st.n {
		start := time.Now()
		answer := st.Ask(to, m)
		times = append(times, time.Since(start))
		if answer != m {
			return 0, st.wrong(answer)
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2]), nil
}

// askMany asks from many goroutines at once. The result is answers per second.
func askMany(st *stage) (float64, error) {
	to := st.Spawn(answerer{})
	share := max(st.n/askers, 1)
	var m any = &empty{}
	wrong := make(chan error, askers)
	var wg sync.WaitGroup
	start := time.Now()
	for range askers {
		wg.Go(func() {
			for range share {
				if answer := st.Ask(to, m); answer != m {
					wrong <- st.wrong(answer)
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-wrong:
		return 0, err
	default:
		return float64(share*askers) / took.Seconds(), nil
	}
}

// wrong says why an answer is not what was asked: when the system knows, its words.
func (st *stage) wrong(answer any) error {
	select {
	case err := <-st.faults:
		return err
	default:
		return fmt.Errorf("asked and answered with %v of type %T: want what was asked", answer, answer)
	}
}

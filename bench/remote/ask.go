package remote

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// askers is how many goroutines ask at once.
const askers = 64

// askOne asks with one question in flight. The results are the median and the 99th percentile in
// microseconds.
func askOne(size int) func(*stage) ([]float64, error) {
	return func(st *stage) ([]float64, error) {
		m := make([]byte, size)
		times := make([]time.Duration, 0, st.n)
		for range st.n {
			start := time.Now()
			if err := st.ask(m); err != nil {
				return nil, err
			}
			times = append(times, time.Since(start))
		}
		slices.Sort(times)
		at := func(percent int) float64 {
			return float64(times[(len(times)-1)*percent/100]) / float64(time.Microsecond)
		}
		return []float64{at(50), at(99)}, nil
	}
}

// askMany asks from many goroutines at once. The result is answers per second.
func askMany(st *stage) ([]float64, error) {
	share := max(st.n/askers, 1)
	m := make([]byte, small)
	failed := make(chan error, askers)
	var wg sync.WaitGroup
	start := time.Now()
	for range askers {
		wg.Go(func() {
			for range share {
				if err := st.ask(m); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(start)
	select {
	case err := <-failed:
		return nil, err
	default:
		return []float64{float64(share*askers) / took.Seconds()}, nil
	}
}

// ask asks once; a wrong answer is an error.
func (st *stage) ask(m []byte) error {
	answer, err := st.Ask(st.ctx, m)
	if err == nil && len(answer) != len(m) {
		err = fmt.Errorf("asked with %d bytes and answered with %d", len(m), len(answer))
	}
	return err
}

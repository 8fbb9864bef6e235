package remote

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const (
	// countPause is between two looks at how many messages have arrived.
	countPause = time.Millisecond
	// quiet is how long nothing must have arrived before the rest counts as lost.
	quiet = 2 * time.Second
)

// outcome is what became of a burst.
type outcome struct {
	refused int   // messages refused at the sender
	why     error // of the first of them
	arrived int
	lost    int // messages that did not arrive and were not refused
	took    time.Duration
}

// tell sends a burst. The results are messages per second, of those that arrived, and how many were
// lost.
func tell(size int) func(*stage) ([]float64, error) {
	return func(st *stage) ([]float64, error) {
		o, err := st.send(make([]byte, size))
		switch {
		case err != nil:
			return nil, err
		case o.refused > 0:
			return nil, fmt.Errorf("%d of %d messages were refused, the first with: %w", o.refused, st.n, o.why)
		case o.arrived == 0:
			return nil, fmt.Errorf("none of %d messages arrived", st.n)
		}
		return []float64{float64(o.arrived) / o.took.Seconds(), float64(o.lost)}, nil
	}
}

// burst sends one, too. The results are how many messages were lost, and how many refused.
func burst(size int) func(*stage) ([]float64, error) {
	return func(st *stage) ([]float64, error) {
		o, err := st.send(make([]byte, size))
		return []float64{float64(o.lost), float64(o.refused)}, err
	}
}

// send tells one message n times, as fast as it can, and waits for what becomes of them.
func (st *stage) send(m []byte) (o outcome, err error) {
	before, err := st.Count(st.ctx)
	if err != nil {
		return o, fmt.Errorf("count before the burst: %w", err)
	}
	start := time.Now()
	for range st.n {
		if err := st.Tell(st.ctx, m); err != nil {
			o.refused++
			o.why = cmp.Or(o.why, err)
		}
	}
	if err := st.Flush(st.ctx); err != nil {
		return o, fmt.Errorf("flush: %w", err)
	}
	known := time.Now()
	sent := st.n - o.refused
	arrived, last, err := st.arrivals(before, sent)
	if last.Before(known) {
		last = known
	}
	o.arrived = arrived
	o.lost = sent - arrived
	o.took = last.Sub(start)
	return o, err
}

// arrivals waits until as many messages have arrived as were sent, or until no more come (REM-3).
// It returns how many have, and when the last of them was seen to.
func (st *stage) arrivals(before, sent int) (arrived int, last time.Time, err error) {
	last = time.Now()
	for {
		count, err := st.Count(st.ctx)
		if err != nil {
			return arrived, last, fmt.Errorf("count after %d of %d messages: %w", arrived, sent, err)
		}
		count -= before
		now := time.Now()
		if count > sent {
			return count, now, fmt.Errorf("%d messages arrived, and %d were sent", count, sent)
		}
		if count > arrived {
			arrived, last = count, now
		}
		if arrived == sent || now.Sub(last) > quiet {
			return arrived, last, nil
		}
		if err := wait(st.ctx, countPause); err != nil {
			return arrived, last, fmt.Errorf("after %d of %d messages: %w", arrived, sent, err)
		}
	}
}

// flood sends for n milliseconds, whatever becomes of it. The result is the most memory the process
// has had, in MiB.
func flood(size int) func(*stage) ([]float64, error) {
	return func(st *stage) ([]float64, error) {
		ctx, cancel := context.WithTimeout(st.ctx, time.Duration(st.n)*time.Millisecond)
		defer cancel()
		m := make([]byte, size)
		for ctx.Err() == nil {
			_ = st.Tell(ctx, m) // what is refused is not kept, and this is about what is
		}
		peak, err := peakMiB()
		return []float64{peak}, err
	}
}

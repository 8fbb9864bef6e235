package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// spins is the canary's work on each CPU, a few tens of milliseconds.
	spins = 40_000_000
	// calm is the spread up to which the machine counts as undisturbed.
	calm = 0.10
)

// canary times the same work again and again: whatever changes is not ours.
type canary struct{ times []float64 } // ms

// sing does the work once, on every CPU, and notes how long it took.
func (c *canary) sing() {
	runtime.GC() // a collection of what a row left behind would disturb
	start := time.Now()
	var wg sync.WaitGroup
	for cpu := range runtime.GOMAXPROCS(0) {
		wg.Go(func() { spin(uint64(cpu)) })
	}
	wg.Wait()
	c.times = append(c.times, since(start, time.Millisecond))
}

// spin steps a linear congruential generator, which a compiler cannot shorten.
//
//go:noinline
func spin(x uint64) uint64 {
	for range spins {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// spread is the distance of the extremes, relative to the median.
func (c *canary) spread() float64 {
	return (slices.Max(c.times) - slices.Min(c.times)) / quantile(c.times, 0.5)
}

// line is the last of the report.
func (c *canary) line() string {
	disturbed := "no"
	if c.spread() > calm {
		disturbed = "yes"
	}
	return fmt.Sprintf("canary=spin median=%.2f min=%.2f max=%.2f unit=ms spread=%.1f%% n=%d disturbed=%s",
		quantile(c.times, 0.5), slices.Min(c.times), slices.Max(c.times), c.spread()*100, len(c.times), disturbed)
}

// since is the time from start on, in a unit.
func since(start time.Time, unit time.Duration) float64 {
	return float64(time.Since(start)) / float64(unit)
}

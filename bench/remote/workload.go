package remote

import (
	"context"
	"fmt"
	"runtime"

	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/local/lines"
)

// Workload is one thing to measure.
type Workload struct {
	Name string
	Size int // how much one repeat does
	run  func(*stage) ([]float64, error)
}

const (
	small = 64
	large = 1024

	kib = 1 << 10
	mib = 1 << 20
)

// Workloads are all there are.
func Workloads() []Workload {
	return []Workload{
		{"remote-tell-64B", 1_000_000, tell(small)},
		{"remote-tell-1KiB", 200_000, tell(large)},
		{"remote-tell-64KiB", 4_000, tell(64 * kib)},
		{"remote-tell-1MiB", 250, tell(mib)},
		{"remote-tell-16MiB", 16, tell(16 * mib)},
		{"remote-ask", 10_000, askOne(small)},
		{"remote-ask-64KiB", 1_000, askOne(64 * kib)},
		{"remote-ask-1MiB", 100, askOne(mib)},
		{"remote-ask-16MiB", 8, askOne(16 * mib)},
		{"remote-ask-64", 64_000, askMany},
		{"route-burst", 500_000, burst(large)},
		{"flood-rss", 6_000, flood(large)},
	}
}

// Find is the workload of that name.
func Find(name string) (Workload, bool) {
	for _, w := range Workloads() {
		if w.Name == name {
			return w, true
		}
	}
	return Workload{}, false
}

// stage is what a workload runs on.
type stage struct {
	Sender
	n   int // how much to do
	ctx context.Context
}

// respond does what a line asks for.
func respond(ctx context.Context, s Sender, line string) ([]float64, error) {
	name, n, err := lines.ParseRequest(line)
	w, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("request %q: there is no workload %q", line, name)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, local.Patience,
		fmt.Errorf("not done within %v", local.Patience))
	defer cancel()
	runtime.GC()
	return w.run(&stage{Sender: s, n: n, ctx: ctx})
}

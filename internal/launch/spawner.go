package launch

import (
	"runtime"
	"sync"
)

// spawner runs functions on one operating system thread, one at a time (LCH-1). Linux sends
// PDEATHSIG when the forking thread ends, and Go ends a thread with its locked goroutine. This
// goroutine returns only in stop, when no child is left.
type spawner struct {
	work chan func()
	wg   sync.WaitGroup
}

func startSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	s.wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with us
		for fn := range s.work {
			fn()
		}
	})
	return s
}

// do runs fn on the thread and waits for it.
func (s *spawner) do(fn func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}

// stop ends the thread. No call of do may follow.
func (s *spawner) stop() {
	close(s.work)
	s.wg.Wait()
}

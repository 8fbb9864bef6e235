package launch

import (
	"runtime"
	"sync"
)

// A spawner runs functions on one operating system thread, one at a time
// (LCH-1). Linux delivers PDEATHSIG when the thread that forked ends, and Go
// ends a thread when a goroutine locked to it returns; this goroutine is
// locked and returns only in stop, when no child is left.
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

// do runs fn on the thread and returns when it is done.
func (s *spawner) do(fn func()) {
	done := make(chan struct{})
	s.work <- func() {
		defer close(done)
		fn()
	}
	<-done
}

// stop ends the thread. No do may follow.
func (s *spawner) stop() {
	close(s.work)
	s.wg.Wait()
}

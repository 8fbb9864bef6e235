package actortest

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// inSynctest reports whether the caller runs in a testing/synctest bubble. The testing package has
// no such function, but Wait panics outside of one.
func inSynctest() (in bool) {
	defer func() {
		if recover() != nil {
			in = false
		}
	}()
	synctest.Wait()
	return true
}

// Settle waits until the rig and its peers are idle (KIT-4). An actor that waits for a held answer
// counts as idle.
func (r *Rig) Settle() {
	r.t.Helper()
	if r.shared.inSynctest {
		synctest.Wait()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	tick := time.NewTicker(time.Millisecond) // there is no event for idleness
	defer tick.Stop()
	for {
		// If everything is idle before and after the flush, and has handled nothing in between,
		// then nothing was in flight.
		before, busy := r.shared.activity()
		if busy == "" && r.shared.flush(ctx) {
			var after uint64
			after, busy = r.shared.activity()
			if busy == "" && before == after {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("actortest: the rig did not become idle within %s: %s", Timeout, busy)
		}
	}
}

// activity names a busy actor ("" for none), and counts the handled messages.
func (s *sharedRig) activity() (handled uint64, busy string) {
	for _, r := range s.rigs {
		if r.proc == nil {
			continue
		}
		for _, i := range r.proc.Actors() {
			handled += i.Handled + 1
			resting := i.Status == actor.Running && i.Queued == 0 && i.Current == ""
			if !resting && !i.Status.Terminal() && !s.held.isWaiting(r.proc.ID().Actor(i.Name)) {
				busy = i.Name + " is " + describeActivity(i)
			}
		}
	}
	return handled, busy
}

// describeActivity describes an actor's current work.
func describeActivity(i actor.Info) string {
	text := string(i.Status)
	if i.Current != "" {
		text += fmt.Sprintf(", its handler of %s has run for %s", i.Current,
			i.RunningFor.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s, %d messages wait", text, i.Queued)
}

// flush waits until all messages between the procs have arrived. A later request proves that by its
// answer, because a link keeps its order. false: the time is up.
func (s *sharedRig) flush(ctx context.Context) bool {
	for _, from := range s.rigs {
		for _, to := range s.rigs {
			if from == to || from.proc == nil || to.proc == nil {
				continue
			}
			if all := to.proc.Actors(); len(all) > 0 {
				// a closed proc has nothing in flight
				_, _ = from.proc.Inspect(ctx, to.proc.ID().Actor(all[0].Name))
			}
		}
	}
	return ctx.Err() == nil
}

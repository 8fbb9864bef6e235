package actortest

import (
	"context"
	"fmt"
	"testing/synctest"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// inBubble reports whether the caller runs in a testing/synctest bubble. The testing package does not
// say, but Wait panics outside of one.
func inBubble() (in bool) {
	defer func() {
		if recover() != nil {
			in = false
		}
	}()
	synctest.Wait()
	return true
}

// Settle waits until nothing goes on in the rig and its peers any more (KIT-4). An actor that waits for
// the answer of a message that a Recorder holds is at rest.
func (r *Rig) Settle() {
	r.t.Helper()
	if r.shared.bubbled {
		synctest.Wait()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond) // there is no event that says that nothing happens
	defer tick.Stop()
	for {
		// What is at rest before and after the links were flushed, and has handled nothing in
		// between, was at rest in between, too, with nothing on the way.
		before, busy := r.shared.look()
		if busy == "" && r.shared.flush(ctx) {
			var after uint64
			if after, busy = r.shared.look(); busy == "" && before == after {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("actortest: the rig did not come to rest within %s: %s", Patience, busy)
		}
	}
}

// look says which actor is not at rest ("" for none), and how much was handled so far.
func (s *shared) look() (handled uint64, busy string) {
	for _, r := range s.rigs {
		if r.proc == nil {
			continue
		}
		for _, i := range r.proc.Actors() {
			handled += i.Handled + 1
			resting := i.Status == actor.Running && i.Queued == 0 && i.Current == ""
			if !resting && !i.Status.Terminal() && !s.held.by(r.proc.ID().Actor(i.Name)) {
				busy = i.Name + " is " + atWork(i)
			}
		}
	}
	return handled, busy
}

// atWork says what an actor is at.
func atWork(i actor.Info) string {
	text := string(i.Status)
	if i.Current != "" {
		text += fmt.Sprintf(", its handler of %s has run for %s", i.Current, i.For.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s, %d messages wait", text, i.Queued)
}

// flush waits until what each proc has sent to each other one is there: an answer to a question that
// was sent later says so, for a link keeps its order. false: time is up.
func (s *shared) flush(ctx context.Context) bool {
	for _, from := range s.rigs {
		for _, to := range s.rigs {
			if from == to || from.proc == nil || to.proc == nil {
				continue
			}
			if all := to.proc.Actors(); len(all) > 0 {
				_, _ = from.proc.Inspect(ctx, to.proc.ID().Actor(all[0].Name)) // a proc that is closed has nothing on the way
			}
		}
	}
	return ctx.Err() == nil
}

package supervise_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/internal/supervise"
)

// referee computes the expected effects of an event. It keeps only a log of all events and
// decisions, and reads that from the start for each answer. A child is its place in the order of
// spawns, under any key.
type referee struct {
	strategy supervise.Strategy
	policies []supervise.Policy // by child
	keys     []string           // by child
	log      []entry
	now      time.Time
	over     bool
}

type entry struct {
	what what
	who  int
	at   time.Time // due: when a restart may begin; else when it was
}

type what int

const (
	born    what = iota // spawned, or started again
	ended               // and to be started again
	asked               // while it was being started
	gone                // forgotten or escalated
	trigger             // its restart was decided
	stop
	start
	wait
	rang // Due was called
)

func (r *referee) write(w what, who int, at time.Time) { r.log = append(r.log, entry{w, who, at}) }

// last is the last place in the log at which a child was one of these; -1: never.
func (r *referee) last(who int, kinds ...what) int {
	found := -1
	for i, e := range r.log {
		for _, k := range kinds {
			if e.who == who && e.what == k {
				found = i
			}
		}
	}
	return found
}

// is reports whether the latest turn of a child's life was that one.
func (r *referee) is(who int, w what) bool {
	i := r.last(who, born, ended, start, gone)
	return r.log[i].what == w
}

func (r *referee) stopRequested(who int) bool {
	return r.is(who, born) && r.last(who, stop) > r.last(who, born)
}

// causes are the decided restarts that include the latest life of a child.
func (r *referee) causes(who int) (out []entry) {
	since := max(r.last(who, start), r.firstBirth(who))
	for i, e := range r.log {
		concerned := e.who == who || r.strategy == supervise.OneForAll ||
			r.strategy == supervise.RestForOne && e.who < who
		if i > since && e.what == trigger && concerned {
			out = append(out, e)
		}
	}
	return out
}

func (r *referee) firstBirth(who int) int {
	for i, e := range r.log {
		if e.who == who && e.what == born {
			return i
		}
	}
	return -1
}

func (r *referee) unwanted(who int) bool {
	return r.last(who, asked) > r.last(who, start) || r.policies[who].Restart == supervise.Temporary
}

func (r *referee) doomed(who int) bool {
	askedFor := r.last(who, asked) > r.last(who, start)
	return (r.is(who, born) || r.is(who, start)) && !r.stopRequested(who) && (len(r.causes(who)) > 0 || askedFor)
}

func (r *referee) due(who int) (latest time.Time) {
	for _, e := range r.causes(who) {
		if e.at.After(latest) {
			latest = e.at
		}
	}
	return latest
}

// restarts counts those within the window of a child's policy.
func (r *referee) restarts(who int) (n int) {
	decided := false
	for _, e := range r.log {
		if r.strategy == supervise.OneForOne && e.who != who {
			continue
		}
		switch e.what {
		case trigger:
			decided = true
		case start:
			if decided && !e.at.Before(r.now.Add(-r.policies[who].Window)) {
				n++
			}
			decided = false
		}
	}
	return n
}

func (r *referee) find(key string) int {
	for who, k := range r.keys {
		if k == key && !r.is(who, gone) {
			return who
		}
	}
	return -1
}

func (r *referee) spawned(key string, p supervise.Policy) {
	if r.over || r.find(key) >= 0 {
		return
	}
	r.keys, r.policies = append(r.keys, key), append(r.policies, p)
	r.write(born, len(r.keys)-1, r.now)
}

func (r *referee) ended(key string, why supervise.ExitReason) string {
	who := r.find(key)
	switch {
	case who < 0 || r.over:
		return ""
	case r.is(who, start):
		if why == supervise.Requested {
			r.write(asked, who, r.now)
		}
		return ""
	case r.is(who, ended):
		if why != supervise.Requested {
			return ""
		}
		r.write(gone, who, r.now)
	case !r.stopRequested(who) && !r.doomed(who):
		return r.judged(who, why)
	case r.unwanted(who), why == supervise.Requested && !r.stopRequested(who):
		r.write(gone, who, r.now)
	default:
		r.write(ended, who, r.now)
	}
	return r.next()
}

// judged is the fate of a child that ended by itself.
func (r *referee) judged(who int, why supervise.ExitReason) string {
	p := r.policies[who]
	again := map[supervise.Restart]map[supervise.ExitReason]bool{
		supervise.Transient: {supervise.Failed: true},
		supervise.Permanent: {supervise.Failed: true, supervise.Stopped: true},
	}[p.Restart][why]
	n := r.restarts(who)
	if again && n < p.MaxRestarts {
		delay := p.Backoff.First
		for range n {
			delay = min(2*delay, p.Backoff.Max)
		}
		r.write(ended, who, r.now)
		r.write(trigger, who, r.now.Add(delay))
		return r.next()
	}
	r.write(gone, who, r.now)
	switch {
	case again && p.MaxRestarts == 1:
		return fmt.Sprintf("escalate %s: 1 restart within %s", r.keys[who], p.Window)
	case again:
		return fmt.Sprintf("escalate %s: %d restarts within %s", r.keys[who], p.MaxRestarts, p.Window)
	case why == supervise.Failed && p.Restart == supervise.Propagate:
		return fmt.Sprintf("escalate %s: its policy is propagate", r.keys[who])
	}
	return ""
}

func (r *referee) restarted(old, key string) string {
	who := r.find(old)
	if who < 0 || r.over || !r.is(who, start) {
		return ""
	}
	if taken := r.find(key); taken >= 0 && taken != who {
		r.write(gone, who, r.now)
	} else {
		r.keys[who] = key
		r.write(born, who, r.now)
	}
	return r.next()
}

func (r *referee) startFailed(key string) string {
	who := r.find(key)
	switch {
	case who < 0 || r.over || !r.is(who, start):
		return ""
	case r.last(who, asked) > r.last(who, start):
		r.write(gone, who, r.now)
	case r.doomed(who):
		r.write(ended, who, r.now)
	default:
		first := r.judged(who, supervise.Failed)
		return join(first, r.next())
	}
	return r.next()
}

func (r *referee) rang() string {
	r.write(rang, -1, r.now)
	return r.next()
}

// next is everything possible now.
func (r *referee) next() string {
	var out []string
	var waiting []int
	if r.over {
		return ""
	}
	if r.strategy == supervise.OneForOne {
		for who := range r.keys {
			out, waiting = r.one(who, out, waiting)
		}
	} else if who := r.turn(); who >= 0 {
		out, waiting = r.one(who, out, waiting)
	}
	var alarm time.Time
	for _, e := range r.log {
		switch e.what {
		case wait:
			alarm = e.at
		case rang:
			alarm = time.Time{}
		}
	}
	var at time.Time
	for _, who := range waiting {
		if due := r.due(who); at.IsZero() || due.Before(at) {
			at = due
		}
	}
	if len(waiting) > 0 && (alarm.IsZero() || at.Before(alarm)) {
		r.write(wait, -1, at)
		out = append(out, fmt.Sprint("wait ", at.Sub(origin)))
	}
	return strings.Join(out, ", ")
}

// one performs the possible action for a child, or adds the child to the waiting ones.
func (r *referee) one(who int, out []string, waiting []int) ([]string, []int) {
	switch {
	case r.is(who, born) && r.doomed(who):
		r.write(stop, who, r.now)
		return append(out, "stop "+r.keys[who]), waiting
	case !r.is(who, ended):
	case r.due(who).After(r.now):
		return out, append(waiting, who)
	default:
		r.write(start, who, r.now)
		return append(out, "start "+r.keys[who]), waiting
	}
	return out, waiting
}

// turn is the next child of a group with a possible action; -1 when all wait for another.
func (r *referee) turn() int {
	last, first := -1, -1
	for who := range r.keys {
		if r.stopRequested(who) {
			return -1
		}
		if r.doomed(who) {
			last = who
		}
		if first < 0 && (r.is(who, ended) || r.is(who, start)) {
			first = who
		}
	}
	if last >= 0 {
		return last
	}
	return first
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

package supervise

import (
	"cmp"
	"fmt"
	"time"
)

// The intensity of a Policy that does not say.
const (
	defaultMost   = 3
	defaultWithin = 5 * time.Second
)

// maxMost bounds the times of restarts that are remembered.
const maxMost = 1000

// When says which ends of a child are followed by a new start. An end that somebody asked for
// never is.
type When uint8

const (
	Propagate When = iota // none: a failure is the parent's, an orderly stop is the end of it
	Temporary             // none: a failure is of no consequence either
	Transient             // failures
	Permanent             // all
)

var whenNames = [...]string{"propagate", "temporary", "transient", "permanent"}

func (w When) String() string {
	if int(w) >= len(whenNames) {
		return fmt.Sprintf("when(%d)", uint8(w))
	}
	return whenNames[w]
}

// Strategy says who is started again together with a child.
type Strategy uint8

const (
	OneForOne  Strategy = iota // nobody
	OneForAll                  // all other children
	RestForOne                 // the children started after it
)

var strategyNames = [...]string{"one-for-one", "one-for-all", "rest-for-one"}

func (s Strategy) String() string {
	if int(s) >= len(strategyNames) {
		return fmt.Sprintf("strategy(%d)", uint8(s))
	}
	return strategyNames[s]
}

// Check refuses a strategy that is none of the three.
func (s Strategy) Check() error {
	if int(s) >= len(strategyNames) {
		return fmt.Errorf("%s: want one of %v", s, strategyNames)
	}
	return nil
}

// Backoff is the delay before a restart: First when there was none within the window, twice as long
// with each that there was, at most Max. The zero value restarts at once.
type Backoff struct{ First, Max time.Duration }

// after is the delay when there were so many restarts within the window.
func (b Backoff) after(restarts int) time.Duration {
	d := b.First
	for range restarts {
		if d > b.Max/2 { // doubled it could overflow
			return b.Max
		}
		d *= 2
	}
	return d
}

// Policy is what a child is to its supervisor. The zero value propagates failures.
type Policy struct {
	When   When
	Most   int           // restarts within the window, then the supervisor gives up; 0: 3; at most 1,000
	Within time.Duration // the window; 0: 5 s

	// Backoff spaces restarts. Delays that keep Most restarts from happening within the window
	// make a child that is started again for ever.
	Backoff Backoff
}

// Check refuses what a supervisor cannot keep. An error names the value, and what was expected.
func (p Policy) Check() error {
	b := p.Backoff
	switch {
	case int(p.When) >= len(whenNames):
		return fmt.Errorf("policy: %s: want one of %v", p.When, whenNames)
	case p.Most < 0 || p.Most > maxMost:
		return fmt.Errorf("policy: most %d restarts: want 1 to %d, or 0 for %d", p.Most, maxMost, defaultMost)
	case p.Within < 0:
		return fmt.Errorf("policy: restarts within %s: want a time above zero, or 0 for %s", p.Within, defaultWithin)
	case b.First < 0 || b.First > b.Max:
		return fmt.Errorf("policy: backoff from %s to %s: want 0 or more to begin with, and no less in the end", b.First, b.Max)
	case b.First == 0 && b.Max > 0:
		return fmt.Errorf("policy: backoff from 0s to %s: want a first delay above zero, which doubles, or no delay at all", b.Max)
	}
	return nil
}

func (p Policy) most() int { return cmp.Or(p.Most, defaultMost) }

func (p Policy) within() time.Duration { return cmp.Or(p.Within, defaultWithin) }

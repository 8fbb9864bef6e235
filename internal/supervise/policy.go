package supervise

import (
	"cmp"
	"fmt"
	"time"
)

// Defaults of a Policy's intensity.
const (
	defaultMaxRestarts = 3
	defaultWindow      = 5 * time.Second
)

// restartLimit bounds the remembered times of restarts.
const restartLimit = 1000

// Restart selects the ends of a child that lead to a restart. A requested end never does.
type Restart uint8

const (
	Propagate Restart = iota // none: a failure is the parent's, an orderly stop is the end of it
	Temporary                // none: a failure is of no consequence either
	Transient                // failures
	Permanent                // all
)

var restartNames = [...]string{"propagate", "temporary", "transient", "permanent"}

func (r Restart) String() string {
	if int(r) >= len(restartNames) {
		return fmt.Sprintf("restart(%d)", uint8(r))
	}
	return restartNames[r]
}

// Strategy selects the children that restart together.
type Strategy uint8

const (
	OneForOne  Strategy = iota // the child alone
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

// Check returns an error for an unknown strategy.
func (s Strategy) Check() error {
	if int(s) >= len(strategyNames) {
		return fmt.Errorf("%s: want one of %v", s, strategyNames)
	}
	return nil
}

// Backoff is the delay before a restart: First if there was none within the window, doubled with
// each earlier one, at most Max. The zero value restarts at once.
type Backoff struct{ First, Max time.Duration }

// delay returns the delay after that number of restarts within the window.
func (b Backoff) delay(restarts int) time.Duration {
	d := b.First
	for range restarts {
		if d > b.Max/2 { // doubled it could overflow
			return b.Max
		}
		d *= 2
	}
	return d
}

// Policy is the restart policy of a child. The zero value propagates failures.
type Policy struct {
	Restart     Restart
	MaxRestarts int           // restarts within the window, then the supervisor gives up; 0: 3; at most 1,000
	Window      time.Duration // the window; 0: 5 s

	// Backoff spaces restarts. If its delays keep MaxRestarts restarts from fitting into the
	// window, a child may restart for ever.
	Backoff Backoff
}

// Check returns an error for an invalid policy. It names the value and the valid ones.
func (p Policy) Check() error {
	b := p.Backoff
	switch {
	case int(p.Restart) >= len(restartNames):
		return fmt.Errorf("restart policy: %s: want one of %v", p.Restart, restartNames)
	case p.MaxRestarts < 0 || p.MaxRestarts > restartLimit:
		return fmt.Errorf("restart policy: at most %d restarts: want 1 to %d, or 0 for %d", p.MaxRestarts,
			restartLimit, defaultMaxRestarts)
	case p.Window < 0:
		return fmt.Errorf("restart policy: restarts within %s: want a time above zero, or 0 for %s", p.Window,
			defaultWindow)
	case b.First < 0 || b.First > b.Max:
		return fmt.Errorf("restart policy: backoff from %s to %s: "+
			"want a first delay of 0 or more, and a maximum no less", b.First, b.Max)
	case b.First == 0 && b.Max > 0:
		return fmt.Errorf("restart policy: backoff from 0s to %s: want a first delay above 0, or no delay", b.Max)
	}
	return nil
}

func (p Policy) maxRestarts() int { return cmp.Or(p.MaxRestarts, defaultMaxRestarts) }

func (p Policy) window() time.Duration { return cmp.Or(p.Window, defaultWindow) }

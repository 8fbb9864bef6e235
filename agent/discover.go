package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// knownWithin is how long a host that is known to be there may be silent while others answer.
const knownWithin = time.Second

// firstWithin is how long the first host may take. Where nobody listens the server says so at once, unless somebody
// hears everything.
const firstWithin = 5 * time.Second

// errEnough ends a look.
var errEnough = errors.New("nobody else is expected")

// Hosts asks every live host to introduce itself, and returns those that did before it was quiet for so
// long, ordered by label. Hosts that are known to be there may take a second. No host is an empty answer.
func Hosts(ctx context.Context, b *bus.Bus, space subjects.Space, quiet time.Duration, known ...subjects.HostID) ([]HostInfo, error) {
	return look(ctx, b, space, newCensus(quiet, quiet, known, time.Now()), false)
}

// ListedHosts is Hosts that also asks a gateway which hosts there are, and ends soon after all those have
// answered. Its error comes with the hosts that answered before ctx ended.
func ListedHosts(ctx context.Context, b *bus.Bus, space subjects.Space, quiet time.Duration) ([]HostInfo, error) {
	return look(ctx, b, space, newCensus(quiet, quiet/10, nil, time.Now()), true)
}

// look asks the hosts to introduce themselves. An error comes with the hosts that answered before it.
func look(ctx context.Context, b *bus.Bus, space subjects.Space, c *census, list bool) (out []HostInfo, err error) {
	looking, end := context.WithCancelCause(ctx)
	over := time.AfterFunc(max(c.quiet, firstWithin), func() { end(errEnough) })
	defer over.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end(nil)
	defer func() { slices.SortFunc(out, byLabel) }()
	if list {
		wg.Go(func() {
			known, err := KnownHosts(looking, b, space)
			if ids := known.expected(); err == nil && known.All && len(ids) > 0 { // else it is as if there were no gateway
				over.Reset(c.list(ids, time.Now()))
			}
		})
	}
	request := bus.Msg{Subject: space.Host(subjects.Any, Info.Name(), subjects.Anon)}
	for m, err := range b.Control().RequestMany(looking, request, 0, isIntroduction) {
		if errors.Is(context.Cause(looking), errEnough) && err != nil {
			break
		}
		if err != nil {
			return out, fmt.Errorf("find hosts: %w", err)
		}
		h, _ := introduced(m)
		over.Reset(c.hear(h.ID, time.Now()))
		if h.ID.IsValid() {
			out = append(out, h)
		}
	}
	return out, nil
}

func byLabel(a, b HostInfo) int {
	if c := strings.Compare(a.Label, b.Label); c != 0 {
		return c
	}
	return a.ID.Compare(b.ID)
}

// introduced reads an answer; false: it is none. A host that is stopping says so: it is none any more, and has
// no ID.
func introduced(m bus.Msg) (h HostInfo, ok bool) {
	if m.Header.Get(actor.HeaderError) != "" {
		return h, true
	}
	return h, json.Unmarshal(m.Data, &h) == nil && h.ID.IsValid()
}

func isIntroduction(m bus.Msg) bool {
	_, ok := introduced(m)
	return ok
}

// census says how long more answers are waited for.
type census struct {
	quiet time.Duration // when it is not known who there is
	grace time.Duration // when all who are known have answered; twice the slowest one's time if that is more

	mu      sync.Mutex // guards all below
	began   time.Time
	last    time.Time // an answer
	heard   map[subjects.HostID]bool
	missing map[subjects.HostID]bool // that are known; nil: it is not known who there is
}

func newCensus(quiet, grace time.Duration, known []subjects.HostID, now time.Time) *census {
	c := &census{quiet: quiet, grace: grace, began: now, last: now, heard: map[subjects.HostID]bool{}}
	if len(known) > 0 {
		c.list(known, now)
	}
	return c
}

// hear takes the answer of a host, and says how long from now nobody may answer.
func (c *census) hear(id subjects.HostID, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[id], c.last = true, now
	delete(c.missing, id)
	return c.wait()
}

// list takes the word of who there is.
func (c *census) list(ids []subjects.HostID, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.missing = map[subjects.HostID]bool{}
	for _, id := range ids {
		if !c.heard[id] {
			c.missing[id] = true
		}
	}
	return c.wait() - now.Sub(c.last)
}

// wait is how long after the last answer it ends. The lock is held.
func (c *census) wait() time.Duration {
	switch {
	case c.missing == nil:
		return c.quiet
	case len(c.missing) > 0:
		return max(c.quiet, knownWithin)
	}
	return min(c.quiet, max(c.grace, 2*c.last.Sub(c.began)))
}

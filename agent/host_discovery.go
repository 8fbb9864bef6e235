package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/fanout"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// knownHostTimeout is the wait for a known but silent host, or for the list of hosts, while others
// answer.
const knownHostTimeout = time.Second

// firstAnswerTimeout is the wait for the first host. Without listeners the server replies at once,
// unless some client subscribes to everything. Then the servers are asked who listens.
const firstAnswerTimeout = 5 * time.Second

// repeatInterval is the interval of requests until the first answer, for hosts that start
// meanwhile.
const repeatInterval = time.Second

// errDiscoveryDone ends a discovery.
var errDiscoveryDone = errors.New("all known hosts have answered")

// DiscoverHosts asks every live host for its HostInfo. It returns the answers, ordered by label,
// once no further one arrives for the quiet period. Known hosts get one second; silent are those
// that did not answer. No host is no error.
func DiscoverHosts(ctx context.Context, b *bus.Bus, space subjects.Space, quiet time.Duration,
	known ...subjects.HostID) (found []HostInfo, silent []subjects.HostID, err error) {
	return discover(ctx, b, space, newDiscovery(quiet, quiet, known, time.Now()))
}

// DiscoverListedHosts works as DiscoverHosts. It also asks a gateway for the list of hosts, waits
// one second for it, and ends soon after all of them answered. Dead hosts are not awaited. If ctx
// ends, it returns the answers so far with the error.
func DiscoverListedHosts(ctx context.Context, b *bus.Bus, space subjects.Space,
	quiet time.Duration) (found []HostInfo, silent []subjects.HostID, err error) {
	c := newDiscovery(quiet, quiet/10, nil, time.Now())
	c.awaitsList = true
	return discover(ctx, b, space, c)
}

// discover asks the hosts for their HostInfo. With an error it returns the answers so far.
func discover(ctx context.Context, b *bus.Bus, space subjects.Space,
	c *discovery) (out []HostInfo, silent []subjects.HostID, err error) {
	looking, end := context.WithCancelCause(ctx)
	over := time.AfterFunc(max(c.quiet, firstAnswerTimeout), func() { end(errDiscoveryDone) })
	defer over.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end(nil)
	defer func() { slices.SortFunc(out, byLabel) }()
	request := bus.Msg{Subject: space.HostRead(subjects.Any, Info.Name(), subjects.Anon())}
	if c.awaitsList {
		wg.Go(func() {
			known, err := ListKnownHosts(looking, b, space)
			var ids []subjects.HostID // none: proceed as without a gateway
			if err == nil && known.Complete {
				ids = known.expected()
			}
			if wait, isSet := c.recordList(ids, time.Now()); isSet {
				over.Reset(wait)
			}
		})
	}
	wg.Go(func() {
		if hasNoListener(looking, b, space, request.Subject) {
			end(errDiscoveryDone)
		}
	})
	type answer struct {
		msg bus.Msg
		err error
	}
	answers := make(chan answer)
	var asking sync.WaitGroup
	ask := func() {
		for m, err := range b.Control().RequestMany(looking, request, 0, isHostInfo) {
			answers <- answer{m, err}
			if err != nil {
				return
			}
		}
		end(errDiscoveryDone) // no host listens, or the search is over
	}
	asking.Go(ask)
	asking.Go(func() {
		again := time.NewTicker(repeatInterval)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				if c.isAnswered() {
					return
				}
				asking.Go(ask)
			case <-looking.Done():
				return
			}
		}
	})
	wg.Go(func() {
		asking.Wait()
		close(answers)
	})
	for a := range answers {
		if a.err != nil {
			if !errors.Is(context.Cause(looking), errDiscoveryDone) {
				err = fmt.Errorf("cannot find hosts: %w", a.err)
			}
			end(a.err)
			continue
		}
		h, _ := parseHostInfo(a.msg)
		isNew, wait := c.recordAnswer(h.ID, time.Now())
		over.Reset(wait)
		if isNew && h.ID.IsValid() {
			out = append(out, h)
		}
	}
	return out, c.silent(), err
}

const (
	// confirmTimeout bounds the wait for the agent of a found host.
	confirmTimeout = 2 * time.Second
	// maxConfirms bounds the hosts that are asked at a time.
	maxConfirms = 512
)

// ConfirmHosts returns what the agents of found hosts say, and the errors of those that do not
// answer. Anyone can answer a search for hosts, in any name.
func ConfirmHosts(
	ctx context.Context, p *actor.Proc, found []HostInfo,
) (confirmed []HostInfo, failed map[subjects.HostID]error) {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	infos := make([]HostInfo, len(found))
	errs := make([]error, len(found))
	fanout.Each(maxConfirms, found, func(i int, h HostInfo) {
		infos[i], errs[i] = Info.Call(ctx, Of(h.ID.Proc()).Via(p), actor.None{})
	})
	failed = map[subjects.HostID]error{}
	for i, h := range found {
		if errs[i] != nil {
			failed[h.ID] = errs[i]
		} else {
			confirmed = append(confirmed, infos[i])
		}
	}
	return confirmed, failed
}

func byLabel(a, b HostInfo) int {
	if c := strings.Compare(a.Label, b.Label); c != 0 {
		return c
	}
	return a.ID.Compare(b.ID)
}

// parseHostInfo decodes an answer. It returns false for a stopping host, whose answer has no ID.
func parseHostInfo(m bus.Msg) (h HostInfo, ok bool) {
	if m.Header.Get(actor.HeaderError) != "" {
		return h, true
	}
	return h, json.Unmarshal(m.Data, &h) == nil && h.ID.IsValid()
}

func isHostInfo(m bus.Msg) bool {
	_, ok := parseHostInfo(m)
	return ok
}

// discovery decides how much longer to wait for answers.
type discovery struct {
	quiet time.Duration // wait without a list of hosts
	grace time.Duration // wait after all known hosts have answered; at least twice the slowest answer

	mu         sync.Mutex // guards the fields below
	awaitsList bool       // of hosts
	startedAt  time.Time
	lastAnswer time.Time // time of the last answer
	answered   map[subjects.HostID]bool
	missing    map[subjects.HostID]bool // known hosts without an answer; nil without a list
}

func newDiscovery(quiet, grace time.Duration, known []subjects.HostID, now time.Time) *discovery {
	c := &discovery{
		quiet: quiet, grace: grace, startedAt: now, lastAnswer: now, answered: map[subjects.HostID]bool{},
	}
	if len(known) > 0 {
		c.recordList(known, now)
	}
	return c
}

// isAnswered reports whether a host has answered.
func (c *discovery) isAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answered) > 0
}

// recordAnswer records the answer of a host and returns the time to wait for the next one. isNew
// marks its first answer.
func (c *discovery) recordAnswer(id subjects.HostID, now time.Time) (isNew bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isNew = !c.answered[id]
	c.answered[id] = true
	c.lastAnswer = now
	delete(c.missing, id)
	return isNew, c.remainingWait()
}

// recordList records the list of hosts, or that there is none. It returns the time to wait for the
// next answer. Without an answer isSet is false: a listed host may be slow.
func (c *discovery) recordList(ids []subjects.HostID, now time.Time) (wait time.Duration, isSet bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaitsList = false
	if len(ids) > 0 {
		c.missing = map[subjects.HostID]bool{}
	}
	for _, id := range ids {
		if !c.answered[id] {
			c.missing[id] = true
		}
	}
	return c.remainingWait() - now.Sub(c.lastAnswer), len(c.answered) > 0
}

// silent returns the known hosts that have not answered.
func (c *discovery) silent() []subjects.HostID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Keys(c.missing), subjects.HostID.Compare)
}

// remainingWait returns the wait after the last answer. The caller holds the lock.
func (c *discovery) remainingWait() time.Duration {
	if c.awaitsList || len(c.missing) > 0 {
		return max(c.quiet, knownHostTimeout)
	}
	if c.missing == nil {
		return c.quiet
	}
	return min(c.quiet, max(c.grace, 2*c.lastAnswer.Sub(c.startedAt)))
}

// KindHostList is the heartbeat kind under which a gateway returns its HostList to any client.
const KindHostList = "hosts"

// States of a host in the view of a presence watcher (package presence).
const (
	HostAlive   = "alive"
	HostSuspect = "suspect"
	HostUnknown = "unknown"
	HostDead    = "dead"
)

// HostList lists the hosts that a gateway knows.
type HostList struct {
	Complete bool        `cbor:"1,keyasint"` // the list holds every live host
	Hosts    []KnownHost `cbor:"2,keyasint,omitempty"`
}

// KnownHost is a host in the view of a gateway.
type KnownHost struct {
	ID      subjects.HostID `cbor:"1,keyasint"`
	State   string          `cbor:"2,keyasint"`
	Reason  string          `cbor:"3,keyasint,omitempty"`
	Silence time.Duration   `cbor:"4,keyasint,omitempty"` // since the last sign of life; 0 if alive
}

// Check reports malformed lists.
func (l HostList) Check() error {
	for _, h := range l.Hosts {
		if !h.ID.IsValid() {
			return errors.New("list of hosts: an entry has no host ID")
		}
		if len(h.State) > maxMode || len(h.Reason) > MaxReason || h.Silence < 0 {
			return fmt.Errorf("list of hosts: the entry of %s is out of bounds", h.ID)
		}
	}
	return nil
}

// expected returns the hosts that may answer.
func (l HostList) expected() (ids []subjects.HostID) {
	for _, h := range l.Hosts {
		if h.State != HostDead {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// Gateways form one queue group. The server can pick a hung one, so the request repeats until an
// answer arrives.
const (
	listRetryInterval = 50 * time.Millisecond
	listTimeout       = 2 * time.Second
)

// ListKnownHosts asks the gateways for their hosts. It fails with bus.ErrNoResponders without a
// gateway, and with context.DeadlineExceeded after 2 s without an answer. A listener to everything
// hides from the server that there is no gateway, so the servers are asked who listens.
func ListKnownHosts(ctx context.Context, b *bus.Bus, space subjects.Space) (HostList, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	type answer struct {
		listing HostList
		err     error
	}
	answers := make(chan answer)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	again := time.NewTicker(listRetryInterval)
	defer again.Stop()
	asking.Go(func() {
		if !hasNoListener(ctx, b, space, space.Heartbeat(KindHostList, subjects.Anon())) {
			return
		}
		select {
		case answers <- answer{err: fmt.Errorf("%w: no gateway listens", bus.ErrNoResponders)}:
		case <-ctx.Done():
		}
	})
	for {
		asking.Go(func() {
			l, err := requestKnownHosts(ctx, b, space)
			select {
			case answers <- answer{l, err}:
			case <-ctx.Done():
			}
		})
		select {
		case a := <-answers:
			return a.listing, a.err
		case <-ctx.Done():
			return HostList{}, ctx.Err()
		case <-again.C:
		}
	}
}

// hasNoListener reports whether the servers see no listener to a subject. It publishes to a host
// that never existed. Users may publish to that subject, and only subscribers to everything receive
// it.
func hasNoListener(ctx context.Context, b *bus.Bus, space subjects.Space, subject string) bool {
	never, err := subjects.NewHostID("nobody")
	if err != nil {
		return false
	}
	unused := space.HostRead(never.String(), Info.Name(), subjects.Anon())
	absent, err := b.Control().Absent(ctx, unused, []string{subject})
	return err == nil && absent[0]
}

// HostIsGone reports whether the servers see no listener to the requests of a host.
func HostIsGone(ctx context.Context, b *bus.Bus, space subjects.Space, id subjects.HostID) bool {
	ctx, cancel := context.WithTimeout(ctx, firstAnswerTimeout)
	defer cancel()
	request := bus.Msg{Subject: space.HostRead(id.String(), Info.Name(), subjects.Anon())}
	if hasNoListener(ctx, b, space, request.Subject) { // with a listener to everything
		return true
	}
	_, err := b.Control().Request(ctx, request, isHostInfo)
	return errors.Is(err, bus.ErrNoResponders)
}

// requestKnownHosts asks one gateway.
func requestKnownHosts(ctx context.Context, b *bus.Bus, space subjects.Space) (l HostList, err error) {
	request := bus.Msg{Subject: space.Heartbeat(KindHostList, subjects.Anon())}
	_, err = b.Control().Request(ctx, request, func(m bus.Msg) bool {
		l = HostList{}
		return wire.Unmarshal(m.Data, &l) == nil && l.Check() == nil
	})
	return l, err
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// HostList is the kind of heartbeat subject on which anybody may ask a gateway which hosts it knows: a HostListing.
const HostList = "hosts"

// The states of a host, as a watcher of it says (package agent/presence).
const (
	HostAlive   = "alive"
	HostSuspect = "suspect"
	HostUnknown = "unknown"
	HostDead    = "dead"
)

// HostListing is the hosts that a gateway knows.
type HostListing struct {
	All   bool        `cbor:"1,keyasint"` // every live host is among them
	Hosts []KnownHost `cbor:"2,keyasint,omitempty"`
}

// KnownHost is a host as the gateway sees it that watches it.
type KnownHost struct {
	ID      subjects.HostID `cbor:"1,keyasint"`
	State   string          `cbor:"2,keyasint"`
	Reason  string          `cbor:"3,keyasint,omitempty"`
	Silence time.Duration   `cbor:"4,keyasint,omitempty"` // since the host was heard last; 0 for a host that is alive
}

// Check reports what is wrong with a listing.
func (l HostListing) Check() error {
	for _, h := range l.Hosts {
		switch {
		case !h.ID.IsValid():
			return errors.New("list of hosts: an entry has no host ID")
		case len(h.State) > maxMode, len(h.Reason) > MaxWhy, h.Silence < 0:
			return fmt.Errorf("list of hosts: the entry of %s is out of bounds", h.ID)
		}
	}
	return nil
}

// expected are the hosts that may answer.
func (l HostListing) expected() (ids []subjects.HostID) {
	for _, h := range l.Hosts {
		if h.State != HostDead {
			ids = append(ids, h.ID)
		}
	}
	return ids
}

// The gateways are one queue group, and the server picks any of them, a hung one included. So the question is
// repeated until one answers.
const (
	listEvery  = 50 * time.Millisecond
	listWithin = time.Second
)

// KnownHosts asks the gateways which hosts they know. It fails with bus.ErrNoResponders where there is no gateway,
// and with context.DeadlineExceeded when none answers within a second.
func KnownHosts(ctx context.Context, b *bus.Bus, space subjects.Space) (HostListing, error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	type answer struct {
		listing HostListing
		err     error
	}
	answers := make(chan answer)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	again := time.NewTicker(listEvery)
	defer again.Stop()
	for {
		asking.Go(func() {
			l, err := askKnown(ctx, b, space)
			select {
			case answers <- answer{l, err}:
			case <-ctx.Done():
			}
		})
		select {
		case a := <-answers:
			return a.listing, a.err
		case <-ctx.Done():
			return HostListing{}, ctx.Err()
		case <-again.C:
		}
	}
}

// askKnown asks one gateway.
func askKnown(ctx context.Context, b *bus.Bus, space subjects.Space) (l HostListing, err error) {
	request := bus.Msg{Subject: space.Heartbeat(HostList, subjects.Anon)}
	_, err = b.Control().Request(ctx, request, func(m bus.Msg) bool {
		l = HostListing{}
		return wire.Unmarshal(m.Data, &l) == nil && l.Check() == nil
	})
	return l, err
}

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
		if !noGateway(ctx, b, space) {
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

// noGateway reports whether the servers see no gateway. It publishes to a host that never existed.
// Users may publish to this subject, and only subscribers to everything receive it.
func noGateway(ctx context.Context, b *bus.Bus, space subjects.Space) bool {
	never, err := subjects.NewHostID("nobody")
	if err != nil {
		return false
	}
	gateways := []string{space.Heartbeat(KindHostList, subjects.Anon)}
	absent, err := b.Control().Absent(ctx, space.Host(never.String(), Info.Name(), subjects.Anon), gateways)
	return err == nil && absent[0]
}

// requestKnownHosts asks one gateway.
func requestKnownHosts(ctx context.Context, b *bus.Bus, space subjects.Space) (l HostList, err error) {
	request := bus.Msg{Subject: space.Heartbeat(KindHostList, subjects.Anon)}
	_, err = b.Control().Request(ctx, request, func(m bus.Msg) bool {
		l = HostList{}
		return wire.Unmarshal(m.Data, &l) == nil && l.Check() == nil
	})
	return l, err
}

package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/subjects"
)

// serviceName and the metadata keys describe system controllers as micro services.
const (
	serviceName = "castnet-system"
	metaSpace   = "space"
	metaActor   = "actor"
	metaEpoch   = "epoch"
)

// serviceID is the ID of the acting controller as a micro service: that of its space. The servers
// thus know whether a controller of the space listens.
func serviceID(space subjects.Space) string { return strings.ReplaceAll(space.String(), ".", "_") }

// ping is the subject that asks for the controller of a space.
func ping(space subjects.Space) string { return pingSubject + serviceID(space) }

const pingSubject = "$SRV.PING." + serviceName + "."

const (
	findTimeout = 5 * time.Second
	// findInterval is the time to the next request: a controller may have ended with the last one.
	findInterval = 500 * time.Millisecond
	// listTimeout bounds the list of controllers, listQuiet the wait for the next one.
	listTimeout = time.Second
	listQuiet   = 250 * time.Millisecond
)

// ErrNoController reports that no system controller listens.
var ErrNoController = errors.New(
	"no system controller answers: start a hostd with a server of its own, or with --system")

// candidate is a system controller.
type candidate struct {
	actor subjects.ActorID
	epoch uint64
}

// Reasons for the end of a search without an answer.
var (
	errSilent  = errors.New("one listens")
	errUnknown = errors.New("it is not known whether one listens")
)

// Find returns the system controller that answers first. ErrNoController means that none listens,
// according to the servers. If ctx ends or 5 s pass without an answer, the error says what is
// known.
func Find(ctx context.Context, p *actor.Proc) (actor.Ref[*Controller], error) {
	found, err := findFirst(ctx, p.Bus().Control(), p.Space())
	if err != nil {
		return actor.ErrRef[*Controller](err), err
	}
	return actor.RefOf[*Controller](found.actor).Via(p), nil
}

// findFirst repeats the request until a controller answers or none listens. A listener to
// everything hides from the server that none does, so the servers are asked who listens.
func findFirst(ctx context.Context, c *bus.Conn, space subjects.Space) (candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	answers := make(chan sighting)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	ask := func(of func(context.Context, *bus.Conn, subjects.Space) sighting) {
		asking.Go(func() {
			a := of(ctx, c, space)
			select {
			case answers <- a:
			case <-ctx.Done():
			}
		})
	}
	began := time.Now()
	again := time.NewTicker(findInterval)
	defer again.Stop()
	known := errUnknown
	ask(requestFirst)
	for asked := 1; ctx.Err() == nil; {
		select {
		case a := <-answers:
			switch {
			case ctx.Err() != nil:
			case a.silent:
				known = a.err
			default:
				return a.found, a.err
			}
		case <-ctx.Done():
		case <-again.C:
			ask(requestFirst)
			if asked == 1 {
				ask(findListener)
			}
			asked++
		}
	}
	return candidate{}, fmt.Errorf("cannot find the system controller: no answer within %s, and %w: %w",
		time.Since(began).Round(time.Millisecond), known, ctx.Err())
}

// sighting is a result about the acting controller.
type sighting struct {
	found  candidate
	err    error
	silent bool // err is what is known of a controller that does not answer
}

// requestFirst asks the controller itself.
func requestFirst(ctx context.Context, c *bus.Conn, space subjects.Space) (a sighting) {
	accept := func(m bus.Msg) (ok bool) {
		a.found, ok = parseCandidate(m, space)
		return ok
	}
	_, a.err = c.Request(ctx, bus.Msg{Subject: ping(space)}, accept)
	if errors.Is(a.err, bus.ErrNoResponders) {
		a.err = ErrNoController
	}
	return a
}

// findListener asks the servers whether a controller listens.
func findListener(ctx context.Context, c *bus.Conn, space subjects.Space) sighting {
	absent, err := c.Absent(ctx, pingSubject+"nobody", []string{ping(space)})
	switch {
	case err != nil:
		return sighting{err: fmt.Errorf("%w: %w", errUnknown, err), silent: true}
	case absent[0]:
		return sighting{err: ErrNoController}
	}
	return sighting{err: errSilent, silent: true}
}

// find returns the system controllers of a space that answer, until no further one does.
func find(ctx context.Context, b *bus.Bus, space subjects.Space) (all []candidate, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	accept := func(m bus.Msg) bool {
		_, ok := parseCandidate(m, space)
		return ok
	}
	for m, err := range b.Control().RequestMany(ctx, bus.Msg{Subject: ping(space)}, listQuiet, accept) {
		if err != nil {
			return nil, err
		}
		f, _ := parseCandidate(m, space)
		all = append(all, f)
	}
	return all, nil
}

// parseCandidate decodes an answer; false: it is not from a system controller of the space.
func parseCandidate(m bus.Msg, space subjects.Space) (f candidate, ok bool) {
	var said struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(m.Data, &said) != nil || said.Metadata[metaSpace] != space.String() {
		return f, false
	}
	id, err := subjects.ParseActorID(said.Metadata[metaActor])
	epoch, _ := strconv.ParseUint(said.Metadata[metaEpoch], 10, 64) // 0 if it is malformed
	return candidate{id, epoch}, err == nil
}

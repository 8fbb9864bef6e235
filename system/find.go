package system

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
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

// findTimeout bounds the wait for the next controller's answer.
const findTimeout = 250 * time.Millisecond

// ErrNoController reports that no system controller answers.
var ErrNoController = errors.New(
	"no system controller answers: start a hostd with a server of its own, or with --system")

// candidate is a system controller.
type candidate struct {
	actor subjects.ActorID
	epoch uint64
}

// Find returns the system controller that answers first.
func Find(ctx context.Context, p *actor.Proc) (actor.Ref[*Controller], error) {
	all, err := find(ctx, p.Bus(), p.Space(), 0)
	if err == nil && len(all) == 0 {
		err = ErrNoController
	}
	if err != nil {
		return actor.ErrRef[*Controller](err), err
	}
	return actor.RefOf[*Controller](all[0].actor).Via(p), nil
}

// find returns the system controllers of a space. If quiet is 0, it returns the first that answers;
// otherwise it ends after this long without another answer.
func find(ctx context.Context, b *bus.Bus, space subjects.Space, quiet time.Duration) ([]candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*findTimeout)
	defer cancel()
	var all []candidate
	ping := bus.Msg{Subject: "$SRV.PING." + serviceName}
	accept := func(m bus.Msg) bool {
		_, ok := parseCandidate(m, space)
		return ok
	}
	for m, err := range b.Control().RequestMany(ctx, ping, max(quiet, findTimeout), accept) {
		if err != nil {
			return nil, err
		}
		f, _ := parseCandidate(m, space)
		all = append(all, f)
		if quiet == 0 {
			break
		}
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

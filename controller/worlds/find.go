package worlds

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

// serviceName is that of system controllers as micro services, and what they say of themselves there.
const (
	serviceName = "castnet-system"
	metaSpace   = "space"
	metaActor   = "actor"
	metaEpoch   = "epoch"
)

// elsewhere is how long another controller may take to answer.
const elsewhere = 250 * time.Millisecond

// ErrNoSystem says that no system controller answers.
var ErrNoSystem = errors.New("no system controller answers: start a hostd with a server of its own, or with --system")

// found is a system controller.
type found struct {
	actor subjects.ActorID
	epoch uint64
}

// Find asks for the system controller: whoever answers first.
func Find(ctx context.Context, p *actor.Proc) (actor.Ref[*Controller], error) {
	all, err := find(ctx, p.Bus(), p.Space(), 0)
	if err == nil && len(all) == 0 {
		err = ErrNoSystem
	}
	if err != nil {
		return actor.BadRef[*Controller](err), err
	}
	return actor.RefOf[*Controller](all[0].actor).Via(p), nil
}

// find asks for the system controllers of a space: the first to answer, or with a time to be quiet in, all.
func find(ctx context.Context, b *bus.Bus, space subjects.Space, quiet time.Duration) ([]found, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*elsewhere)
	defer cancel()
	var all []found
	for m, err := range b.Control().RequestMany(ctx, bus.Msg{Subject: "$SRV.PING." + serviceName}, max(quiet, elsewhere)) {
		if err != nil {
			return nil, err
		}
		var said struct {
			Metadata map[string]string `json:"metadata"`
		}
		if json.Unmarshal(m.Data, &said) != nil || said.Metadata[metaSpace] != space.String() {
			continue // a controller of others
		}
		id, err := subjects.ParseActorID(said.Metadata[metaActor])
		if err != nil {
			continue
		}
		epoch, _ := strconv.ParseUint(said.Metadata[metaEpoch], 10, 64) // what is no number is none
		all = append(all, found{id, epoch})
		if quiet == 0 {
			break
		}
	}
	return all, nil
}

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
	ping := bus.Msg{Subject: "$SRV.PING." + serviceName}
	accept := func(m bus.Msg) bool {
		_, ok := foundIn(m, space)
		return ok
	}
	for m, err := range b.Control().RequestMany(ctx, ping, max(quiet, elsewhere), accept) {
		if err != nil {
			return nil, err
		}
		f, _ := foundIn(m, space)
		all = append(all, f)
		if quiet == 0 {
			break
		}
	}
	return all, nil
}

// foundIn reads an answer; false: it is not that of a system controller of the space.
func foundIn(m bus.Msg, space subjects.Space) (f found, ok bool) {
	var said struct {
		Metadata map[string]string `json:"metadata"`
	}
	if json.Unmarshal(m.Data, &said) != nil || said.Metadata[metaSpace] != space.String() {
		return f, false
	}
	id, err := subjects.ParseActorID(said.Metadata[metaActor])
	epoch, _ := strconv.ParseUint(said.Metadata[metaEpoch], 10, 64) // what is no number is none
	return found{id, epoch}, err == nil
}

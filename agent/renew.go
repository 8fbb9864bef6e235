package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// Renew is Keepalive for many meshes at once, in the order of the leases. Only hosts serve it.
var Renew = actor.NewEndpoint[Agent, []Lease, []Renewed]("renew")

// MaxRenewals is how many leases one message may renew.
const MaxRenewals = 256

// Renewed is what became of one of many leases: how the ranks are, or why it was not renewed.
type Renewed struct {
	Statuses Overlay `cbor:"1,keyasint,omitempty" json:"statuses,omitempty"`
	Refused  []byte  `cbor:"2,keyasint,omitempty" json:"refused,omitempty"` // an error of package actor, as it travels
}

// Err is why a lease was not renewed; nil: it was.
func (r Renewed) Err() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return actor.FromWire(r.Refused)
}

// RenewHere is the answer of an agent to Renew, by its Keepalive.
func RenewHere(ctx *actor.Context, a Agent, leases []Lease) ([]Renewed, error) {
	if len(leases) > MaxRenewals {
		return nil, fmt.Errorf("%d leases: want at most %d", len(leases), MaxRenewals)
	}
	out := make([]Renewed, len(leases))
	for i, l := range leases {
		o, err := a.Keepalive(ctx, l)
		if out[i].Statuses = o; err != nil {
			out[i].Refused = actor.EncodeError(err)
		}
	}
	return out, nil
}

// RenewAll renews leases at a host, with as few messages as they take, and gives each its answer. An error is that of
// all leases that have none. Hosts that do not know Renew are asked for each.
func RenewAll(ctx context.Context, host actor.Ref[Agent], leases []Lease) (out []Renewed, err error) {
	for some := range slices.Chunk(leases, MaxRenewals) {
		said, err := Insist(ctx, Renew, host, some)
		if errors.Is(err, actor.ErrNoEndpoint) {
			said, err = renewEach(ctx, host, some)
		}
		if err == nil && len(said) != len(some) {
			err = fmt.Errorf("%d answers to %d leases", len(said), len(some))
		}
		if err != nil {
			return out, err
		}
		out = append(out, said...)
	}
	return out, nil
}

func renewEach(ctx context.Context, host actor.Ref[Agent], leases []Lease) (out []Renewed, err error) {
	for _, l := range leases {
		o, err := Insist(ctx, Keepalive, host, l)
		r := Renewed{Statuses: o}
		if e, ok := errors.AsType[*actor.Error](err); ok && e.Refused() {
			r.Refused = actor.EncodeError(err)
		} else if err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/castnet-io/castnet/actor"
)

// Renew is Keepalive for many meshes, in the order of the leases. Only hosts serve it.
var Renew = actor.NewEndpoint[Agent, []Lease, []RenewResult]("renew")

// MaxRenewals bounds the leases of one message.
const MaxRenewals = 256

// RenewResult is the result of one lease renewal: the statuses, or the refusal.
type RenewResult struct {
	Statuses Overlay `cbor:"1,keyasint,omitempty" json:"statuses,omitempty"`
	Refused  []byte  `cbor:"2,keyasint,omitempty" json:"refused,omitempty"` // an encoded error of package actor
}

// Err returns the reason of a refused renewal, or nil.
func (r RenewResult) Err() error {
	if len(r.Refused) == 0 {
		return nil
	}
	return actor.FromWire(r.Refused)
}

// HandleRenew implements Renew with the Keepalive of an agent.
func HandleRenew(ctx *actor.Context, a Agent, leases []Lease) ([]RenewResult, error) {
	if len(leases) > MaxRenewals {
		return nil, fmt.Errorf("%d leases: want at most %d", len(leases), MaxRenewals)
	}
	out := make([]RenewResult, len(leases))
	for i, l := range leases {
		o, err := a.Keepalive(ctx, l)
		out[i].Statuses = o
		if err != nil {
			out[i].Refused = actor.EncodeError(err)
		}
	}
	return out, nil
}

// RenewAll renews leases at a host in as few messages as possible and returns a result per lease.
// The error applies to all leases without a result.
func RenewAll(ctx context.Context, host actor.Ref[Agent], leases []Lease) (out []RenewResult, err error) {
	for some := range slices.Chunk(leases, MaxRenewals) {
		said, err := CallWithFallback(ctx, Renew, host, some)
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

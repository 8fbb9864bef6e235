package host

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// ownership decides which programs and system controllers a host obeys (HOST-9).
type ownership struct {
	host  subjects.HostID
	owner string                           // the owning process; "" = none
	maker *atomic.Pointer[subjects.Sender] // see Options.Maker
	epoch uint64                           // of the latest system controller with an order
}

// acceptEpoch records the epoch of a system controller, or refuses an outdated one.
func (o *ownership) acceptEpoch(epoch uint64) error {
	if epoch != 0 && epoch < o.epoch {
		return &agent.EpochError{Host: o.host.Label(), Requested: epoch, Current: o.epoch}
	}
	o.epoch = max(o.epoch, epoch)
	return nil
}

// take changes the owner of the host.
func (o *ownership) take(by string, t agent.TakeHostRequest) error {
	switch {
	case by == "":
		return errors.New("a plain NATS client cannot own a host: take it from a castnet program")
	case !t.Force && o.owner != "" && o.owner != by:
		return fmt.Errorf("host %s is owned by %s: want a request of the owner, or force", o.host.Label(),
			o.owner)
	case t.Release:
		by = ""
	}
	o.owner = by
	return nil
}

// checkRights refuses orders about the host from a program that it was not started for (AGT-13).
func (o *ownership) checkRights(ctx *actor.Context) error {
	var maker subjects.Sender
	if known := o.maker.Load(); known != nil {
		maker = *known
	}
	return agent.CheckOwner(ctx, "host "+o.host.Label(), maker)
}

// checkOwner refuses a sender without rights, and one other than the host's owner, if it has one.
func (o *ownership) checkOwner(ctx *actor.Context) error {
	if err := o.checkRights(ctx); err != nil {
		return err
	}
	if by := sender(ctx); o.owner != "" && o.owner != by {
		return fmt.Errorf("host %s is owned by %s: only the owner can stop it; take it first", o.host.Label(),
			o.owner)
	}
	return nil
}

// sender returns the sending process of a message, or "" for foreign clients.
func sender(ctx *actor.Context) string {
	if s := ctx.Sender(); s.IsValid() {
		return s.Proc.Process().String()
	}
	return ""
}

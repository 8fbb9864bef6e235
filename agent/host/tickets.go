package host

import (
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

// ticketKey returns the key for tickets of procs; nil where the server takes none, or where procs
// run in this process.
func (o Options) ticketKey() (*ticket.Key, error) {
	if o.Local != nil || o.Settings.Token == "" {
		return nil, nil
	}
	switch name := o.Bus.Control().ServerName(); {
	case name == "":
		return nil, bus.ErrDisconnected
	case !ticket.TakenBy(name):
		return nil, nil
	case ticket.Is(o.Settings.Token):
		return nil, errors.New("cannot launch procs with the ticket of a proc: a host requires the server's token")
	}
	host := subjects.Host.Principal(o.Label)
	key, ok := ticket.KeyOf(o.Settings.Token, o.Space, host)
	if !ok { // a token of somebody's choice
		key = ticket.NewMaster(o.Settings.Token).Issue(o.Space, host, time.Time{})
	}
	if !key.MayName(subjects.Proc.Principal(o.Label)) {
		return nil, fmt.Errorf("cannot launch procs of host %s with the key of %s: "+
			"castnet auth host add %s makes one for it", o.Label, key.Principal(), o.Label)
	}
	return &key, nil
}

// procSettings returns the bus settings of a proc to launch, with a ticket of its own (HOST-19).
func (p *params) procSettings(c *child) agent.BusSettings {
	s := p.opts.Settings
	if p.tickets == nil {
		return s
	}
	user := subjects.User{Principal: subjects.Proc.Principal(p.id.Label()), Process: c.id.Process()}
	s.Token, c.ticket = p.tickets.Sign(user)
	s.InboxPrefix = user.Inbox()
	return s
}

// endTicket reports the end of a proc's ticket to the hostd of the server.
func (a *hostAgent) endTicket(ctx *actor.Context, c *child) {
	if c.ticket == "" {
		return
	}
	subject := a.opts.Space.Heartbeat(agent.KindTicketEnd, ctx.Proc().Sender())
	if err := ctx.Proc().Bus().Control().Publish(subject, []byte(c.ticket)); err != nil {
		log := ctx.Log()
		log.Warn().Err(err).Stringer("of", c.id).Msg("the ticket of an ended proc remains valid")
	}
}

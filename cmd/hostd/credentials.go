package main

import (
	"errors"
	"fmt"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/ticket"
)

// maxRevoked bounds the revoked keys that a state directory remembers. A key that expires needs no
// place for long.
const maxRevoked = 1024

// serveCredentials ends tickets and keys at the own server (HOSTD-13): tickets of procs, as their
// hosts report their ends, and keys that the operator revokes.
func (n *node) serveCredentials() error {
	if n.server == nil {
		return nil
	}
	for _, serial := range n.config.server.revoked {
		n.server.EndTicket(serial)
	}
	control := n.bus.Control()
	_, err := control.Subscribe(n.space.Heartbeats(agent.KindTicketEnd), func(m bus.Msg) {
		n.server.EndTicket(string(m.Data))
	})
	if err != nil {
		return err
	}
	_, err = control.Subscribe(n.space.Heartbeats(agent.KindRevoke), func(m bus.Msg) {
		answer := bus.Msg{Subject: m.Reply, Header: bus.Header{actor.HeaderContentType: {"text/plain"}}}
		if err := n.revoke(string(m.Data)); err != nil {
			answer.Data = []byte(err.Error())
		}
		if m.Reply != "" {
			_ = control.PublishMsg(answer) // the caller repeats its request
		}
	})
	return err
}

// revoke ends a key now, and after a restart. Only the holder of the token can order it.
func (n *node) revoke(serial string) error {
	if serial == "" || len(serial) > ticket.MaxText {
		return errors.New("want the serial of a key")
	}
	n.server.EndTicket(serial)
	n.stateMu.Lock()
	defer n.stateMu.Unlock()
	s := &n.config.server
	s.revoked = append(s.revoked, serial)
	if len(s.revoked) > maxRevoked {
		s.revoked = s.revoked[len(s.revoked)-maxRevoked:]
	}
	switch {
	case n.persistsServer():
	case s.tokenGenerated: // the next server has another one
		return nil
	default:
		return errors.New("the key is refused until this hostd ends: it has no --state-dir to remember it")
	}
	if err := s.saveState(n.stateDir, n.server.URL()); err != nil {
		return fmt.Errorf("the key is refused until this hostd ends: %w", err)
	}
	return nil
}

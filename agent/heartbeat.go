package agent

import (
	"errors"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// Kinds of `hb.` subjects that hosts use.
const (
	KindHostHeartbeat  = "host"   // a Heartbeat; its sender is the host
	KindDisconnectHint = "gone"   // a Connection that ended, reported by its server: a hint, not a proof
	KindTicketEnd      = "ticket" // the serial of an ended proc's ticket, for the hostd of the server
	KindRevoke         = "revoke" // the serial of a key that its server refuses from now on
)

// HeartbeatInbox is the name of the lossy Inbox for `hb.` subjects.
const HeartbeatInbox = "heartbeats"

// Heartbeat is the periodic liveness message of a host.
type Heartbeat struct {
	Host subjects.HostID `cbor:"1,keyasint" json:"host"`
	// distinguishes successive lives under the host's ID
	Incarnation uint64        `cbor:"2,keyasint" json:"incarnation"`
	Seq         uint64        `cbor:"3,keyasint" json:"seq"`      // within this incarnation, from 1
	Interval    time.Duration `cbor:"4,keyasint" json:"interval"` // until the next heartbeat
	// delay of this heartbeat; large when the host is starved
	Lag     time.Duration `cbor:"5,keyasint,omitempty" json:"lag"`
	Conns   []Connection  `cbor:"6,keyasint,omitempty" json:"conns"`   // its present connections
	Closing bool          `cbor:"7,keyasint,omitempty" json:"closing"` // it stops its procs, then itself
	// the last heartbeat of this incarnation: everything has ended
	Goodbye bool `cbor:"8,keyasint,omitempty" json:"goodbye"`
	// why it is closing or takes no procs
	Reason string   `cbor:"9,keyasint,omitempty" json:"reason"`
	Mode   HostMode `cbor:"10,keyasint,omitempty" json:"mode"` // "": open
	// the gateway that serves in its hostd now; zero: none
	Gateway subjects.ProcessID `cbor:"11,keyasint,omitzero" json:"gateway,omitzero"`
}

// Connection identifies a connection during the life of its server, because a server reuses no
// number.
type Connection struct {
	Server string `cbor:"1,keyasint" json:"server"` // the server's ID
	Client uint64 `cbor:"2,keyasint" json:"client"` // client number on that server
}

// Bounds of a heartbeat.
const (
	maxConns  = 8
	MaxReason = 1024 // bytes
	maxMode   = 32
)

// Check reports malformed heartbeats. Argument from is the sender.
func (h Heartbeat) Check(from subjects.Sender) error {
	process, err := from.Process()
	switch {
	case !h.Host.IsValid():
		return errors.New("heartbeat: want a host ID")
	case err != nil, h.Host.Proc().Process() != process, from.Role() != subjects.Host,
		from.Principal().Label() != h.Host.Label():
		return errors.New("heartbeat of " + h.Host.String() + ": sent by " + from.String())
	case h.Interval <= 0:
		return errors.New("heartbeat of " + h.Host.String() + ": want an interval above 0")
	case len(h.Conns) > maxConns, len(h.Reason) > MaxReason, len(h.Mode) > maxMode:
		return errors.New("heartbeat of " + h.Host.String() + ": a field exceeds its limit")
	}
	return nil
}

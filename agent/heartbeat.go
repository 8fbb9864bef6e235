package agent

import (
	"errors"
	"time"

	"github.com/castnet-io/castnet/subjects"
)

// The kinds of `hb.` subjects that hosts use.
const (
	HostBeats = "host" // a Heartbeat, of the host that is the sender
	GoneBeats = "gone" // a Connection that has ended, as the sender's server says: a hint, and no proof
)

// HeartbeatInbox is the name of the lossy Inbox for `hb.` subjects.
const HeartbeatInbox = "heartbeats"

// Heartbeat is a host's sign of life.
type Heartbeat struct {
	Host     subjects.HostID `cbor:"1,keyasint" json:"host"`
	Life     uint64          `cbor:"2,keyasint" json:"life"`              // which of those that had the ID, one after another
	Seq      uint64          `cbor:"3,keyasint" json:"seq"`               // of this life, from 1
	Interval time.Duration   `cbor:"4,keyasint" json:"interval"`          // to the next one
	Lag      time.Duration   `cbor:"5,keyasint,omitempty" json:"lag"`     // how late this one is: the host is starved
	Conns    []Connection    `cbor:"6,keyasint,omitempty" json:"conns"`   // its connections now
	Closing  bool            `cbor:"7,keyasint,omitempty" json:"closing"` // it stops its procs, and then itself
	Goodbye  bool            `cbor:"8,keyasint,omitempty" json:"goodbye"` // the last one of this life: everything has ended
	Why      string          `cbor:"9,keyasint,omitempty" json:"why"`     // it is closing, or takes no procs
	Mode     HostMode        `cbor:"10,keyasint,omitempty" json:"mode"`   // "": it is open
}

// Connection names a connection for as long as its server lives: a server never uses a number twice.
type Connection struct {
	Server string `cbor:"1,keyasint" json:"server"`                   // the server's ID
	Client uint64 `cbor:"2,keyasint" json:"client"`                   // its number there
	Name   string `cbor:"3,keyasint,omitempty" json:"name,omitempty"` // what its client calls it, in GoneBeats
}

// What a heartbeat may hold.
const (
	maxConns = 8
	MaxWhy   = 1024 // bytes
	maxMode  = 32
)

// Check says what is wrong with a heartbeat; from is who sent it.
func (h Heartbeat) Check(from string) error {
	switch {
	case !h.Host.IsValid():
		return errors.New("heartbeat: it names no host")
	case h.Host.Proc().Process().String() != from:
		return errors.New("heartbeat of " + h.Host.String() + ": it was sent by " + from)
	case h.Interval <= 0:
		return errors.New("heartbeat of " + h.Host.String() + ": the interval is not more than 0")
	case len(h.Conns) > maxConns, len(h.Why) > MaxWhy, len(h.Mode) > maxMode:
		return errors.New("heartbeat of " + h.Host.String() + ": it has more than one may have")
	}
	return nil
}

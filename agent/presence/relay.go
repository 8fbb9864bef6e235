package presence

import (
	"encoding/json"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Ends is where servers tell which connections have ended, to those who are in their system account.
const Ends = "$SYS.ACCOUNT.*.DISCONNECT"

// Relaying says who hands on what to whom.
type Relaying struct {
	From  *bus.Conn // which servers tell the ends of connections
	To    *bus.Conn // of the namespace
	Space subjects.Space
	By    subjects.ProcessID
	Log   zerolog.Logger
}

// Relay hands on what servers say of the ends of connections, as hints for Watchers, until From ends.
func Relay(r Relaying) error {
	subject := r.Space.Heartbeat(agent.GoneBeats, r.By.String())
	_, err := r.From.Subscribe(Ends, func(m bus.Msg) {
		c, ok := ended(m.Data)
		if !ok {
			return
		}
		b, err := wire.Marshal(c)
		if err == nil {
			err = r.To.Publish(subject, b)
		}
		if err != nil {
			r.Log.Debug().Err(err).Msg("a hint is not handed on") // presence does without
		}
	})
	if err != nil {
		return fmt.Errorf("hear which connections end: %w", err)
	}
	return nil
}

// ended reads a server's word. Connections that the server itself has ended say nothing about the process: it
// comes back.
func ended(advisory []byte) (agent.Connection, bool) {
	var a struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
		Client struct {
			ID uint64 `json:"id"`
		} `json:"client"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(advisory, &a) != nil || a.Server.ID == "" {
		return agent.Connection{}, false
	}
	switch a.Reason {
	case "Client Closed", "Read Error", "Write Error":
		return agent.Connection{Server: a.Server.ID, Client: a.Client.ID}, true
	}
	return agent.Connection{}, false
}

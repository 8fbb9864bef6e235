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

// DisconnectSubject carries the server's advisories of ended connections, in the system account.
const DisconnectSubject = "$SYS.ACCOUNT.*.DISCONNECT"

// RelayConfig configures RelayDisconnects.
type RelayConfig struct {
	From   *bus.Conn // source of the advisories, in the system account
	To     *bus.Conn // target, in the namespace
	Space  subjects.Space
	Sender subjects.Sender
	Log    zerolog.Logger
}

// RelayDisconnects forwards advisories of ended connections as hints for Watchers, until From
// closes.
func RelayDisconnects(r RelayConfig) error {
	subject := r.Space.Heartbeat(agent.KindDisconnectHint, r.Sender)
	_, err := r.From.Subscribe(DisconnectSubject, func(m bus.Msg) {
		c, ok := parseDisconnect(m.Data)
		if !ok {
			return
		}
		b, err := wire.Marshal(c)
		if err == nil {
			err = r.To.Publish(subject, b)
		}
		if err != nil {
			r.Log.Debug().Err(err).Msg("cannot relay a disconnect hint") // hints are optional
		}
	})
	if err != nil {
		return fmt.Errorf("cannot subscribe to disconnects: %w", err)
	}
	return nil
}

// parseDisconnect decodes an advisory. A connection ended by the server itself is no hint, because
// its process reconnects.
func parseDisconnect(advisory []byte) (agent.Connection, bool) {
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

package presence

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Ends is where servers tell which connections have ended, to those who are in their system account.
const Ends = "$SYS.ACCOUNT.*.DISCONNECT"

// maxName bounds the name of a connection in a hint: clients choose it.
const maxName = 256

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

// Severed calls f, on the control pump, when servers have said that both connections of a program have ended, which its
// bus.Options name after the mesh of its first proc. It is a hint: the program may connect again.
func Severed(p *actor.Proc, program subjects.MeshID, f func()) (cancel func(), err error) {
	over := map[bus.Lane]bool{}
	sub, err := p.Bus().Control().Subscribe(p.Space().Heartbeats(agent.GoneBeats), func(m bus.Msg) {
		c, err := hinted(m.Data)
		if err != nil {
			return // a Watcher logs those
		}
		for _, lane := range []bus.Lane{bus.LaneData, bus.LaneControl} {
			if strings.HasSuffix(c.Name, "/"+program.String()+"/"+string(lane)) {
				over[lane] = true
			}
		}
		if len(over) == 2 {
			clear(over)
			f()
		}
	})
	if err != nil {
		return nil, fmt.Errorf("hear which connections end: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // it fails when the connection is gone: nothing comes any more either way
}

// hinted reads a hint.
func hinted(data []byte) (c agent.Connection, err error) {
	err = wire.Unmarshal(data, &c)
	return c, err
}

// ended reads a server's word. Connections that the server itself has ended say nothing about the process: it
// comes back.
func ended(advisory []byte) (agent.Connection, bool) {
	var a struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
		Client struct {
			ID   uint64 `json:"id"`
			Name string `json:"name"`
		} `json:"client"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(advisory, &a) != nil || a.Server.ID == "" {
		return agent.Connection{}, false
	}
	switch a.Reason {
	case "Client Closed", "Read Error", "Write Error":
		c := agent.Connection{Server: a.Server.ID, Client: a.Client.ID}
		if len(a.Client.Name) <= maxName {
			c.Name = a.Client.Name
		}
		return c, true
	}
	return agent.Connection{}, false
}

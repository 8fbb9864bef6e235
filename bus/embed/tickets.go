package embed

import (
	"crypto/subtle"
	"maps"
	"slices"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus/ticket"
	"github.com/castnet-io/castnet/subjects"
)

// maxEndedTickets bounds the ended tickets that the server remembers.
const maxEndedTickets = 65536

// tickets authenticates the clients of a server by its token or by their tickets. It replaces the
// server's own schemes.
type tickets struct {
	token string
	key   ticket.Key
	log   zerolog.Logger
	srv   *server.Server // set before it starts

	mu    sync.Mutex          // guards the fields below
	conns map[string][]uint64 // the connections of each ticket, by its serial; some may have ended
	sweep int                 // the length of conns at which those without a connection leave it
	ended map[string]bool     // serials
	order []string            // the serials in ended; the oldest is at next
	next  int
}

// firstSweep is the least number of tickets to sweep.
const firstSweep = 1024

func newTickets(token string, log zerolog.Logger) *tickets {
	return &tickets{
		token: token, key: ticket.NewKey(token), log: log,
		conns: map[string][]uint64{}, sweep: firstSweep, ended: map[string]bool{},
	}
}

// Check admits a client, and gives the holder of a ticket its permissions.
func (k *tickets) Check(c server.ClientAuthentication) bool {
	given := c.GetOpts().Token
	if subtle.ConstantTimeCompare([]byte(given), []byte(k.token)) == 1 {
		return true
	}
	if !ticket.Is(given) {
		return false
	}
	t, err := k.key.Verify(given)
	if err != nil {
		k.log.Warn().Err(err).Msg("client refused")
		return false
	}
	process, err := t.Sender.Process()
	grants := t.Space.Grants(subjects.User{Principal: t.Sender.Principal(), Process: process})
	if err != nil || t.Sender.Role() != subjects.Proc {
		k.log.Warn().Stringer("of", t.Sender).Msg("client refused: its ticket is not that of a proc")
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended[t.Serial] {
		k.log.Warn().Stringer("of", t.Sender).Msg("client refused: the process of its ticket has ended")
		return false
	}
	c.RegisterUser(&server.User{
		Username: t.Sender.String(),
		Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: grants.Publish, Deny: grants.DenyPublish},
			Subscribe: &server.SubjectPermission{Allow: grants.Subscribe, Deny: grants.DenySubscribe},
		},
	})
	k.conns[t.Serial] = append(slices.DeleteFunc(k.conns[t.Serial], k.isGone), c.GetID())
	if len(k.conns) >= k.sweep {
		maps.DeleteFunc(k.conns, func(_ string, ids []uint64) bool {
			return !slices.ContainsFunc(ids, func(id uint64) bool { return !k.isGone(id) })
		})
		k.sweep = max(firstSweep, 2*len(k.conns))
	}
	return true
}

// isGone reports whether a connection has ended.
func (k *tickets) isGone(id uint64) bool { return k.srv.GetClient(id) == nil }

// end ends a ticket. A connection in Check is either seen here, or refused there.
func (k *tickets) end(serial string) {
	if len(serial) > ticket.MaxText {
		return
	}
	k.mu.Lock()
	ids := k.conns[serial]
	delete(k.conns, serial)
	if !k.ended[serial] {
		k.ended[serial] = true
		if len(k.order) < maxEndedTickets {
			k.order = append(k.order, serial)
		} else {
			delete(k.ended, k.order[k.next])
			k.order[k.next] = serial
			k.next = (k.next + 1) % maxEndedTickets
		}
	}
	k.mu.Unlock()
	for _, id := range ids {
		_ = k.srv.DisconnectClientByID(id) // an error: it has ended by itself
	}
}

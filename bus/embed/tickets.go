package embed

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus/ticket"
)

// maxEndedTickets bounds the ended tickets that the server remembers.
const maxEndedTickets = 65536

// tickets authenticates the clients of a server by its token, by keys and by tickets. It replaces
// the server's own schemes.
type tickets struct {
	token  string
	master ticket.Master
	log    zerolog.Logger
	srv    *server.Server // set before it starts

	mu    sync.Mutex          // guards the fields below
	conns map[string][]uint64 // the connections of each serial of a key or ticket; some may have ended
	sweep int                 // the length of conns at which those without a connection leave it
	ended map[string]bool     // serials
	order []string            // the serials in ended; the oldest is at next
	next  int
}

// firstSweep is the least number of serials to sweep.
const firstSweep = 1024

func newTickets(token string, log zerolog.Logger) *tickets {
	return &tickets{
		token: token, master: ticket.NewMaster(token), log: log,
		conns: map[string][]uint64{}, sweep: firstSweep, ended: map[string]bool{},
	}
}

// Check admits a client. The holder of a key or a ticket gets the permissions of its user.
func (k *tickets) Check(c server.ClientAuthentication) bool {
	given := c.GetOpts().Token
	if subtle.ConstantTimeCompare([]byte(given), []byte(k.token)) == 1 {
		return true
	}
	if given == "" {
		return false
	}
	t, err := k.master.Verify(given, time.Now())
	if errors.Is(err, ticket.ErrMalformed) {
		return false // a wrong token
	}
	if err == nil {
		err = k.admit(c, t)
	}
	if err != nil {
		k.log.Warn().Err(err).Msg("client refused")
	}
	return err == nil
}

// admit registers a client with the permissions of its user.
func (k *tickets) admit(c server.ClientAuthentication, t ticket.Credential) error {
	grants := t.Space.Grants(t.User)
	if len(grants.Publish) == 0 { // no grants at all would permit everything
		return fmt.Errorf("%s: the role %s makes no connections", t.User, t.User.Principal.Role())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, serial := range t.Serials {
		if k.ended[serial] {
			return fmt.Errorf("%s: its key or ticket has ended", t.User)
		}
	}
	c.RegisterUser(&server.User{
		Username: t.User.String(),
		Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: grants.Publish, Deny: grants.DenyPublish},
			Subscribe: &server.SubjectPermission{Allow: grants.Subscribe, Deny: grants.DenySubscribe},
		},
		ConnectionDeadline: t.Expires,
	})
	for _, serial := range t.Serials {
		k.conns[serial] = append(slices.DeleteFunc(k.conns[serial], k.isGone), c.GetID())
	}
	if len(k.conns) >= k.sweep {
		maps.DeleteFunc(k.conns, func(_ string, ids []uint64) bool {
			return !slices.ContainsFunc(ids, func(id uint64) bool { return !k.isGone(id) })
		})
		k.sweep = max(firstSweep, 2*len(k.conns))
	}
	return nil
}

// isGone reports whether a connection has ended.
func (k *tickets) isGone(id uint64) bool { return k.srv.GetClient(id) == nil }

// end ends a key or a ticket. A connection in Check is either seen here, or refused there.
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

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Questions about its own account that servers answer to any user.
const (
	accountStatz = "$SYS.REQ.ACCOUNT.PING.STATZ"
	accountConnz = "$SYS.REQ.ACCOUNT.PING.CONNZ"
)

const (
	toldWithin    = 500 * time.Millisecond // the time of a server's "no responders" reply, if it can give one
	countedWithin = time.Second            // the time for all servers of a cluster to reply
	listedWithin  = 5 * time.Second

	maxListeners = 256 // to one subject, at one server: where more are, nothing is known
	// of a server's comparison of one subscription with a subject, as measured
	scanCost = 650 * time.Nanosecond
	maxScans = 30 * time.Second // a server's total time for all askers at once
	leafnode = "Leafnode"       // the kind of a connection with further clients behind it
)

// errTooMany reports that the question would cost servers too much.
var errTooMany = errors.New("bus: too many connections to look for listeners")

// Absent asks the servers for subjects without listeners, other than wildcard listeners. These show
// on nobody, an unused subject of the same kind. Where the server itself reports "no responders",
// Absent reports none of the subjects, because that report can be trusted.
//
// An error means that nothing is known: this user has no permission, a server did not answer, or
// there are too many connections. Absent waits for a random time, longer with more connections,
// because others may ask for the same reason.
func (c *Conn) Absent(ctx context.Context, nobody string, subjects []string) (absent []bool, err error) {
	absent = make([]bool, len(subjects))
	heard, err := unusedHasListener(ctx, c, nobody)
	if err != nil || !heard {
		return absent, err
	}
	servers, err := countServers(ctx, c)
	if err != nil {
		return nil, err
	}
	listed, cancel := context.WithTimeout(ctx, listedWithin)
	defer cancel()
	// first: a later listener then counts as a real one
	strangers, err := listeners(listed, c, nobody, servers)
	if err != nil {
		return nil, err
	}
	for i, s := range subjects {
		all, err := listeners(listed, c, s, servers)
		if err != nil {
			return nil, err
		}
		absent[i] = true
		for l := range all {
			if l.leaf || !strangers[l] {
				absent[i] = false // a leaf node listens for others, perhaps on this subject
			}
		}
	}
	return absent, nil
}

// unusedHasListener reports whether an unused subject has a listener.
func unusedHasListener(ctx context.Context, c *Conn, nobody string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, toldWithin)
	defer cancel()
	_, err := c.Request(ctx, Msg{Subject: nobody})
	if err == nil || errors.Is(err, context.DeadlineExceeded) { // a stream answers, a subscriber does not
		return true, nil
	}
	if errors.Is(err, ErrNoResponders) {
		return false, nil
	}
	return false, err
}

// countServers returns the servers present. It first pauses in proportion to a server's time for
// scanning all subscriptions once per connection.
func countServers(ctx context.Context, c *Conn) (servers map[string]bool, err error) {
	count, cancel := context.WithTimeout(ctx, countedWithin)
	defer cancel()
	servers = map[string]bool{}
	connections, subscriptions := 0.0, 0.0
	for m, err := range c.RequestMany(count, Msg{Subject: accountStatz}, 0, isServerAnswer) {
		if err != nil {
			return nil, err
		}
		said, _ := readServerAnswer(m.Data)
		servers[said.Server.ID] = true
		for _, a := range said.Data.Accounts {
			connections += float64(a.Connections)
			subscriptions = max(subscriptions, float64(a.Subscriptions))
		}
		if !c.Clustered() {
			break
		}
	}
	work := connections * subscriptions * float64(scanCost)
	if len(servers) == 0 {
		return nil, errors.New("bus: no server reported its connections")
	}
	if work > float64(maxScans) {
		return nil, fmt.Errorf("%w: %.0f connections, %.0f subscriptions", errTooMany, connections,
			subscriptions)
	}
	select {
	case <-time.After(time.Duration(2 * work * rand.Float64())):
		return servers, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener is a connection with a subscription to a subject.
type listener struct {
	server string
	number uint64
	leaf   bool
}

// listeners returns the listeners of a subject, according to all of these servers.
func listeners(
	ctx context.Context, c *Conn, subject string, servers map[string]bool,
) (map[listener]bool, error) {
	question, err := json.Marshal(map[string]any{"filter_subject": subject, "limit": maxListeners})
	if err != nil {
		return nil, err
	}
	all := map[listener]bool{}
	answered := map[string]bool{} // servers
	for m, err := range c.RequestMany(ctx, Msg{Subject: accountConnz, Data: question}, 0, isServerAnswer) {
		if err != nil {
			return nil, err
		}
		said, _ := readServerAnswer(m.Data)
		server := said.Server.ID
		if said.Data.Connections == nil || len(said.Data.Connections) >= maxListeners {
			return nil, fmt.Errorf("bus: server %s does not list all subscribers of %q", server, subject)
		}
		for _, l := range said.Data.Connections {
			all[listener{server, l.Number, l.Kind == leafnode}] = true
		}
		answered[server] = true
		missing := false
		for s := range servers {
			missing = missing || !answered[s]
		}
		if !missing {
			return all, nil
		}
	}
	return nil, fmt.Errorf("bus: %d of %d servers list the subscribers of %q",
		len(answered), len(servers), subject)
}

// serverAnswer is a server's answer about an account.
type serverAnswer struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Data struct {
		Accounts []struct {
			Connections   uint32 `json:"conns"`
			Subscriptions uint32 `json:"num_subscriptions"`
		} `json:"account_statz"`
		Connections []struct {
			Number uint64 `json:"cid"`
			Kind   string `json:"kind"`
		} `json:"connections"` // nil: the answer has none
	} `json:"data"`
}

// readServerAnswer decodes an answer; false for replies of others, such as a stream of everything.
func readServerAnswer(data []byte) (a serverAnswer, ok bool) {
	err := json.Unmarshal(data, &a)
	return a, err == nil && a.Server.ID != ""
}

func isServerAnswer(m Msg) bool {
	_, ok := readServerAnswer(m.Data)
	return ok
}

package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/subjects"
)

// abilities are what the roles of people may do, in words.
var abilities = map[subjects.Role]string{
	subjects.Operator: "may spawn, cast, and act on hosts and on the meshes of others",
	subjects.Program:  "may spawn and cast, and act on its own meshes",
	subjects.Observer: "may look, and change nothing",
	subjects.Caster:   "may cast through gateways only",
}

// sender is the doctor as the sender of its messages.
func (d *doctor) sender() subjects.Sender {
	return subjects.NewSender(d.self.Principal, d.self.Process)
}

// knownAs is the doctor as the server knows it.
func (d *doctor) knownAs() subjects.User { return signin.KnownAs(*d.options.Bus, d.space, d.self) }

// role says who this client is, what it may do, how long, and whether the server holds it to that
// name.
func (d *doctor) role(ctx context.Context) Finding {
	role := d.self.Principal.Role()
	found := fmt.Sprintf("%s %s", role, d.self.Principal)
	if can := abilities[role]; can != "" {
		found += ": " + can
	}
	if expires := signin.Expires(*d.options.Bus); !expires.IsZero() {
		left := time.Until(expires).Round(time.Second)
		found += fmt.Sprintf("; until %s (in %s)", expires.Format(time.RFC3339), left)
	}
	stranger := subjects.NewSender(role.Principal("doctor-stranger"), d.self.Process)
	other := probe{bus.OpPublish, d.space.Heartbeat("echo", stranger), ""}
	last := probe{bus.OpSubscribe, d.knownAs().Inbox() + ".probe", ""} // answered after the other
	denied, err := runProbes(ctx, d.bus, []probe{other, last})
	if err != nil {
		return Finding{Result: ResultFail, Found: "cannot test the name: " + err.Error(),
			Suggestion: "repair the connection"}
	}
	for _, p := range denied {
		if p == other {
			return Finding{Result: ResultOK, Found: found + "; the server accepts no other name from this client"}
		}
	}
	return Finding{
		Result: ResultOK,
		Found:  found + "; the server accepts any name from this client: it does not tell users apart",
	}
}

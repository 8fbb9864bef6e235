package actor

import (
	"strings"

	"github.com/castnet-io/castnet/subjects"
)

// Permit returns d for actors that compare each message with the role of its sender (ACT-17). roles
// returns the roles that may use an endpoint; for none only the actor's own process may. Without
// Permit every role may use an actor, except observers.
func (d Def) Permit(roles func(endpoint string) []subjects.Role) Def {
	d.comparesRoles = true
	for _, m := range d.methods {
		m.roles = roles(m.name)
	}
	return d
}

// observerDenial returns the refusal of an observer's message to an actor without Permit.
func (in *instance) observerDenial(d *Delivery) *Error {
	if in.def.comparesRoles || d.Sender.Role() != subjects.Observer {
		return nil
	}
	return denied(in.id().String(), d.Port, subjects.Observer, nil)
}

// isReadingPort reports whether a port of the runtime only reads.
func isReadingPort(port string) bool {
	return port == portInfo || port == portDown || port == portDemonitor
}

// deny returns the refusal of a message whose sender has no role for the endpoint, and audits it.
// The process of the actor has every role.
func (in *instance) deny(m *method, ctx *Context, message any) *Error {
	role := ctx.delivery.Sender.Role()
	if !ctx.delivery.Sender.IsValid() || role.IsOneOf(m.roles...) {
		return nil
	}
	why := denied(in.id().String(), m.name, role, m.roles)
	if m.audited {
		newAuditRecord(m.name, ctx, message).onHandled(ctx, nil, why)
	}
	return why
}

// denied is the refusal of a verb for a role. It names the roles that have the verb, those of
// people first.
func denied(actor, verb string, role subjects.Role, permitted []subjects.Role) *Error {
	var people, others []string
	for _, r := range permitted {
		if r.IsOneOf(subjects.UserRoles()...) {
			people = append(people, r.String())
		} else {
			others = append(others, r.String())
		}
	}
	who := "its own process may"
	if names := append(people, others...); len(names) > 0 {
		who = "want the role " + strings.Join(names, " or ")
	}
	if len(permitted) == 0 && role == subjects.Observer {
		who = "an observer only reads"
	}
	if len(people) > 0 {
		who += " (castnet auth mint --role " + people[0] + ")"
	}
	return errorf(CodeDenied, actor, verb, "the role %s may not: %s", role, who)
}

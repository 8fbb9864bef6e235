package agent

import (
	"strings"

	"github.com/castnet-io/castnet/actor"
)

// Act returns the created mesh or actor. Only refusals of a Create are audited.
func (c CreateRequest) Act() (object string, routine bool) {
	if c.Procs != nil {
		return c.Procs.ID.String(), true
	}
	if c.Actors != nil {
		return c.Actors.Name, true
	}
	return "", true
}

// Act returns the stopped mesh or actor.
func (s StopRequest) Act() (object string, routine bool) { return s.ID, false }

// Act returns nothing: a StopAll is about its agent.
func (s StopAllRequest) Act() (object string, routine bool) { return "", false }

// Act returns whether the host closes or opens.
func (c CordonRequest) Act() (object string, routine bool) {
	if c.Cordon {
		return "close", false
	}
	return "open", false
}

// Act returns the drained mesh; "" is all.
func (d DrainRequest) Act() (object string, routine bool) { return d.Mesh, false }

// Act returns how the host is taken.
func (t TakeHostRequest) Act() (object string, routine bool) {
	if t.Release {
		return "release", false
	}
	if t.Force {
		return "force", false
	}
	return "", false
}

// Act returns the program. Its arguments may be secret.
func (e ExecRequest) Act() (object string, routine bool) {
	if len(e.Command) == 0 {
		return "", false
	}
	return e.Command[0], false
}

// Act returns the resized mesh.
func (r ResizeRequest) Act() (object string, routine bool) { return r.ID, false }

// Act returns the mesh and the label of the invited host.
func (r InviteRequest) Act() (object string, routine bool) { return r.ID + " " + r.Host, false }

// Act returns the mesh and the joining host.
func (r JoinRequest) Act() (object string, routine bool) { return r.ID + " " + r.Host.String(), false }

// Act returns the mesh with restarted ranks.
func (r RestartRequest) Act() (object string, routine bool) { return r.ID, false }

// Act returns the drained host.
func (e EvacuateRequest) Act() (object string, routine bool) { return e.Host.String(), false }

// AcceptClaim is Table.AcceptClaim for a message. It audits the takeover of a resource from another
// owner.
func AcceptClaim(ctx *actor.Context, t *Table, at, id string, c Claim) error {
	before := t.owner(id)
	err := t.AcceptClaim(at, id, c, ctx.RemoteSender())
	if after := t.owner(id); before != "" && before != after {
		ctx.Audit("takeover", strings.Join([]string{id, "from", before, "to", after}, " "))
	}
	return err
}

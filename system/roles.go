package system

import (
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// OnSystem is the kind of the system controller in the table of roles.
const OnSystem = "system"

// Permissions is the table of roles of the system controller, as agent.Permissions. An endpoint
// without a row is for the controller's own process.
func Permissions() []agent.Permission {
	at := []string{OnSystem}
	people := []subjects.Role{subjects.Program, subjects.Operator}
	members := append(agent.Owning(), subjects.Host)
	return []agent.Permission{
		{Verb: GetSnapshot.Name(), Agents: at, Roles: agent.Reading()},
		{Verb: GetHealth.Name(), Agents: at, Roles: agent.Reading()},
		{Verb: Locate.Name(), Agents: at, Roles: agent.Reading()},
		{Verb: Failures.Name(), Agents: at, Roles: agent.Reading()},

		{Verb: Detach.Name(), Agents: at, Roles: agent.Owning()},
		{Verb: Adopt.Name(), Agents: at, Roles: agent.Owning()},
		{Verb: Confirm.Name(), Agents: at, Roles: agent.Owning()},
		{Verb: Reserve.Name(), Agents: at, Roles: agent.Owning()},
		{Verb: Release.Name(), Agents: at, Roles: agent.Owning()},

		{Verb: Join.Name(), Agents: at, Roles: members},
		{Verb: Heartbeat.Name(), Agents: at, Roles: members},
		{Verb: SuspectProc.Name(), Agents: at, Roles: append(members, subjects.Gateway)},

		{Verb: Leave.Name(), Agents: at, Roles: []subjects.Role{subjects.Operator, subjects.System},
			Owners: []subjects.Role{subjects.Program, subjects.Host, subjects.Proc}},
		{Verb: Upsert.Name(), Agents: at, Roles: people},
		{Verb: Stop.Name(), Agents: at, Roles: []subjects.Role{subjects.Operator}},
	}
}

// rolesOf returns the roles that may use an endpoint of the system controller (AGT-13).
func rolesOf(endpoint string) []subjects.Role {
	table := Permissions()
	i := slices.IndexFunc(table, func(p agent.Permission) bool { return p.Verb == endpoint })
	if i < 0 {
		return nil
	}
	return append(table[i].Roles, table[i].Owners...)
}

// checkClaimant refuses a claim in the name of another process (AGT-13). An operator may hand over
// what others own.
func checkClaimant(ctx *actor.Context, mesh subjects.MeshID, c agent.Claim) error {
	by := ctx.RemoteSender()
	process, err := by.Process()
	if !by.IsValid() || by.Role() == subjects.Operator ||
		err == nil && (!c.Owner.IsValid() || process == c.Owner.Proc.Process()) {
		return nil
	}
	return &agent.NotOwnerError{Object: "mesh " + mesh.String(), Owner: c.Owner.String(), By: by}
}

// checkMember refuses a Leave in the name of another host or proc (AGT-13).
func checkMember(ctx *actor.Context, l LeaveRequest) error {
	if l.Host != nil {
		owner := subjects.NewSender(subjects.Host.Principal(l.Host.Label()), l.Host.Proc().Process())
		return agent.CheckOwner(ctx, "host "+l.Host.Label(), owner)
	}
	if l.Proc != nil {
		return agent.CheckProcess(ctx, "proc "+l.Proc.String(), l.Proc.Lead().Process())
	}
	return nil
}

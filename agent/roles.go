package agent

import (
	"slices"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Kinds of agents in the table of roles.
const (
	OnHost       = "host"
	OnProc       = "proc"
	OnController = "controller"
)

// HealthVerb is the verb of controller.Health.
const HealthVerb = "health"

// Permission is a row of the table of roles: who may use a verb of some agents. Owners may use it
// on what they own: their process does, or for a program another one of its user.
type Permission struct {
	Verb          string
	Agents        []string
	Roles, Owners []subjects.Role
}

// Reading are the roles that may read: all but casters, which use gateways.
func Reading() []subjects.Role {
	return slices.DeleteFunc(subjects.AllRoles(), func(r subjects.Role) bool { return r == subjects.Caster })
}

// Owning are the roles of processes that own meshes.
func Owning() []subjects.Role {
	return []subjects.Role{subjects.Program, subjects.Operator, subjects.Proc, subjects.System}
}

// Permissions is the table of roles of all agents (AGT-13). An endpoint without a row is for the
// agent's own process. AcceptClaim and CheckOwner find out who owns what.
func Permissions() []Permission {
	operating := []subjects.Role{subjects.Operator}
	ruling := []subjects.Role{subjects.Operator, subjects.System}
	own := []subjects.Role{subjects.Program, subjects.Proc}
	row := func(verb string, roles, owners []subjects.Role, agents ...string) Permission {
		return Permission{verb, agents, roles, owners}
	}
	return []Permission{
		row(Info.Name(), Reading(), nil, OnHost),
		row(Types.Name(), Reading(), nil, OnHost),
		row(Get.Name(), Reading(), nil, OnHost, OnProc, OnController),
		row(Wait.Name(), Reading(), nil, OnHost, OnProc, OnController),
		row(Logs.Name(), Reading(), nil, OnHost, OnProc, OnController),
		row(Ping.Name(), Reading(), nil, OnHost, OnProc, OnController),
		row(GetConfig.Name(), Reading(), nil, OnHost, OnProc),
		row(GetMetrics.Name(), Reading(), nil, OnHost, OnProc),
		row(GetCasts.Name(), Reading(), nil, OnProc),
		row(ListEvents.Name(), Reading(), nil, OnController),
		row(Revision.Name(), Reading(), nil, OnController),
		row(HealthVerb, Reading(), nil, OnController),

		row(Attach.Name(), Owning(), nil, OnHost),
		row(Create.Name(), Owning(), nil, OnHost, OnProc),
		row(Follow.Name(), Owning(), nil, OnController),
		row(AwaitActor.Name(), Owning(), nil, OnController),
		row(Stop.Name(), ruling, own, OnHost, OnProc),
		row(Keepalive.Name(), ruling, own, OnHost, OnProc),
		row(Renew.Name(), ruling, own, OnHost),

		row(StopAll.Name(), operating, own, OnHost),
		row(Cordon.Name(), operating, own, OnHost),
		row(Drain.Name(), operating, own, OnHost),
		row(TakeHost.Name(), operating, own, OnHost),
		row(Exec.Name(), operating, nil, OnHost),
		row(StopAll.Name(), ruling, nil, OnProc),
		row(GetProfile.Name(), operating, nil, OnProc),
		row(Stop.Name(), operating, own, OnController),
		row(StopAll.Name(), operating, own, OnController),
		row(Restart.Name(), operating, own, OnController),
		row(Resize.Name(), operating, own, OnController),
		row(Invite.Name(), operating, own, OnController),
		row(Join.Name(), []subjects.Role{subjects.Host}, nil, OnController),
		row(Evacuate.Name(), []subjects.Role{subjects.Operator, subjects.Host}, nil, OnController),

		row(Ready.Name(), []subjects.Role{subjects.Proc}, nil, OnHost),
		row(Readopt.Name(), []subjects.Role{subjects.Host}, nil, OnProc),
	}
}

// PermitRoles binds the table of roles to the actor type of agents of a kind.
func PermitRoles(kind string, d actor.Def) actor.Def {
	table := Permissions()
	return d.Permit(func(endpoint string) []subjects.Role {
		i := slices.IndexFunc(table, func(p Permission) bool {
			return p.Verb == endpoint && slices.Contains(p.Agents, kind)
		})
		if i < 0 {
			return nil
		}
		return append(table[i].Roles, table[i].Owners...)
	})
}

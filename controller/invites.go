package controller

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// An invite lets one host join the mesh (CTL-21). The owner keeps its public key only, so its
// memory and its reports let no host join. A next owner has no invites.

// maxInvites bounds the invites of a mesh.
const maxInvites = 64

// invite is a kept invite.
type invite struct {
	key     []byte // its public key
	host    string // the label of the invited host
	expires time.Time
	user    subjects.HostID // the host that joins or has joined with it; zero: none
	joined  bool            // the mesh has grown by user
}

// isOver reports whether no host can join with the invite any more.
func (i invite) isOver(now time.Time) bool {
	return i.joined || !i.user.IsValid() && !now.Before(i.expires)
}

// addInvite keeps an invite. If there are too many, it forgets the oldest used or expired one.
func (st *state) addInvite(i invite, now time.Time) error {
	if len(st.invites) >= maxInvites {
		over := slices.IndexFunc(st.invites, func(i invite) bool { return i.isOver(now) })
		if over < 0 {
			return fmt.Errorf("%d invites are open: want at most %d", len(st.invites), maxInvites)
		}
		st.invites = slices.Delete(st.invites, over, over+1)
	}
	st.invites = append(st.invites, i)
	return nil
}

// admit decides whether a host may join the mesh. It marks the invite as used by the host, until
// endJoin. present: the mesh has the host already, and the invite remains as it is.
func (st *state) admit(by subjects.Sender, r agent.JoinRequest, now time.Time) (present bool, err error) {
	self := subjects.NewSender(subjects.Host.Principal(r.Host.Label()), r.Host.Proc().Process())
	if !self.IsValid() || by != self {
		return false, fmt.Errorf("%s asks for host %s: want the host itself", by, r.Host)
	}
	if slices.Contains(st.description().Hosts, r.Host) {
		return true, nil
	}
	i := st.inviteOf(r.Key)
	switch {
	case i == nil:
		return false, errors.New("its owner has no such invite: " +
			"invites end with their owner, and old ones are forgotten")
	case !r.IsProved():
		return false, fmt.Errorf("the proof is not of host %s and this invite", r.Host)
	case i.host != r.Host.Label():
		return false, fmt.Errorf("the invite is for host %s, not for %s", i.host, r.Host.Label())
	case i.joined:
		return false, fmt.Errorf("the invite is used: host %s joined with it", i.user)
	case i.user.IsValid():
		return false, fmt.Errorf("the invite is in use: host %s joins with it", i.user)
	case !now.Before(i.expires):
		return false, fmt.Errorf("the invite expired %s ago", now.Sub(i.expires).Round(time.Second))
	}
	i.user = r.Host
	return false, nil
}

// endJoin ends the use of an invite. If the mesh did not grow, the invite holds until it expires.
func (st *state) endJoin(key []byte, joined bool) {
	i := st.inviteOf(key)
	if i == nil {
		return
	}
	i.joined = joined
	if !joined {
		i.user = subjects.HostID{}
	}
}

// inviteOf returns the invite with a public key, or nil.
func (st *state) inviteOf(key []byte) *invite {
	n := slices.IndexFunc(st.invites, func(i invite) bool { return bytes.Equal(i.key, key) })
	if n < 0 {
		return nil
	}
	return &st.invites[n]
}

// Invite makes an invite, and returns its text.
func (c *controller) Invite(ctx *actor.Context, r agent.InviteRequest) (agent.InviteResponse, error) {
	fail := func(err error) (agent.InviteResponse, error) {
		return agent.InviteResponse{}, fmt.Errorf("cannot invite host %q to %s: %w", r.Host, c.spec.id(), err)
	}
	if err := c.checkResizer(ctx); err != nil {
		return agent.InviteResponse{}, err
	}
	if c.fenced != nil {
		return agent.InviteResponse{}, c.fenced
	}
	if err := c.checkInvite(r); err != nil {
		return fail(err)
	}
	invitation, err := agent.NewInvitation(ctx.Proc().Space(), c.spec.Procs.ID, r.Host, ctx.Self())
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	err = c.addInvite(invite{key: invitation.Key(), host: r.Host, expires: now.Add(r.TTL)}, now)
	if err != nil {
		return fail(err)
	}
	return agent.InviteResponse{Invitation: invitation.Text()}, nil
}

// checkInvite returns the reason against an invite.
func (c *controller) checkInvite(r agent.InviteRequest) error {
	switch {
	case !c.isFor(r.ID):
		return fmt.Errorf("mesh %q has another owner", r.ID)
	case r.TTL <= 0 || r.TTL > agent.MaxInviteTTL:
		return fmt.Errorf("valid for %s: want more than 0 and at most %s", r.TTL, agent.MaxInviteTTL)
	case c.spec.Procs.PerProcess > 1:
		return errors.New("its procs share processes: want hosts that run procs in their own process")
	}
	if err := subjects.CheckLabel("host label", r.Host); err != nil {
		return err
	}
	if err := c.checkGrowable(); err != nil {
		return err
	}
	_, err := c.spec.Procs.Resize(c.spec.Procs.Hosts)
	return err
}

// Join adds the sending host to the mesh, if an invite permits it. It replies once the ranks of the
// host run with their actors.
func (c *controller) Join(ctx *actor.Context, r agent.JoinRequest) (agent.JoinResponse, error) {
	if c.fenced != nil {
		return agent.JoinResponse{}, c.fenced
	}
	if !c.isFor(r.ID) {
		return agent.JoinResponse{}, fmt.Errorf("mesh %q has another owner", r.ID)
	}
	present, err := c.admit(ctx.SentBy(), r, time.Now())
	if err != nil {
		return agent.JoinResponse{}, err
	}
	if present {
		place, err := c.placeOf(r.Host)
		place.Present = true
		return place, err
	}
	reply := actor.Defer[agent.JoinResponse](ctx)
	c.growByHost(ctx, r.Host, time.Now().Add(c.spawnLimit()), func(o agent.Overlay, err error) {
		joined, err := c.joined(r.Host, o, err)
		c.endJoin(r.Key, err == nil)
		reply.Reply(joined, err)
	})
	return agent.JoinResponse{}, nil
}

// growByHost grows the mesh by one host, after earlier changes of its hosts. It calls done once.
func (c *controller) growByHost(
	ctx *actor.Context, host subjects.HostID, by time.Time, done func(agent.Overlay, error),
) {
	mustWait := func(ctx *actor.Context) bool {
		_, died := c.diedHosts[host]
		if !c.changesHosts() && !died || time.Now().After(by) {
			return false
		}
		ctx.After(followRetry, func(ctx *actor.Context) { c.growByHost(ctx, host, by, done) })
		return true
	}
	if mustWait(ctx) {
		return
	}
	c.prepareGrowth(ctx, func(ctx *actor.Context, err error) {
		if !mustWait(ctx) {
			r := agent.ResizeRequest{ID: c.spec.id(), Add: []subjects.HostID{host}}
			c.grow(ctx, r, c.spawnLimit(), err, done)
		}
	})
}

// joined returns the answer after the mesh has grown by a host, or has not.
func (c *controller) joined(host subjects.HostID, o agent.Overlay, err error) (agent.JoinResponse, error) {
	err = cmp.Or(c.fencedError(), err)
	if err != nil {
		return agent.JoinResponse{}, err
	}
	for _, r := range o {
		if r.Status.Phase != agent.Running {
			return agent.JoinResponse{}, fmt.Errorf("the mesh did not grow: rank %d %s", r.First, r.Status)
		}
	}
	return c.placeOf(host)
}

// placeOf returns the ranks on a host, as others know them.
func (c *controller) placeOf(host subjects.HostID) (agent.JoinResponse, error) {
	m := c.description()
	index := slices.Index(m.Hosts, host)
	if index < 0 {
		return agent.JoinResponse{}, errors.New("the mesh did not grow: it is stopping")
	}
	return agent.JoinResponse{First: index * m.PerHost, Count: m.PerHost}, nil
}

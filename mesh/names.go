package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/controller/worlds"
	"github.com/castnet-io/castnet/subjects"
)

const (
	// nameQuiet is how long nobody else may answer who takes a name, once somebody has.
	nameQuiet = 250 * time.Millisecond
	// nameWithin is how long the first of them may take. Nobody there is said at once, but between clusters of servers only
	// when it is asked again.
	nameWithin = time.Second
	nameTries  = 2
	// nameSettles is within what the servers of a cluster know who listens.
	nameSettles = 250 * time.Millisecond
	// nameUID makes the name of a mesh the ID of one that cannot be: where those meet who take the name.
	nameUID = "-0000000000000"
)

// TakeName makes sure that no live mesh and no world has a name, and that whoever else takes it fails until release is
// called, by when the name is to be that of a mesh that others find. Of several that take it at one moment one succeeds.
// The others, and who comes later, get a *NameTakenError (MESH-17).
func (n *Net) TakeName(ctx context.Context, name string) (release func(), err error) {
	return n.takeName(ctx, name, func(ctx context.Context) error {
		if err := n.noMesh(ctx, name, "mesh", "world"); err != nil {
			return err
		}
		return n.notTheSystems(ctx, name)
	})
}

// TakeWorldName is TakeName for who declares a world, which hosts may have joined, or which may be there already.
func (n *Net) TakeWorldName(ctx context.Context, name string) (release func(), err error) {
	return n.takeName(ctx, name, func(ctx context.Context) error { return n.noMesh(ctx, name, "mesh") })
}

func (n *Net) takeName(ctx context.Context, name string, free func(context.Context) error) (release func(), err error) {
	fail := func(err error) (func(), error) {
		if _, taken := errors.AsType[*NameTakenError](err); taken {
			return nil, err // it says it all
		}
		return nil, fmt.Errorf("take the name %s: %w", name, err)
	}
	if err := subjects.CheckLabel("mesh label", name); err != nil {
		return fail(err)
	}
	t, err := n.enter(name)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			t.release()
		}
	}()
	if err = t.ask(ctx); err == nil && n.bus.Data().Clustered() {
		select {
		case <-time.After(nameSettles):
			err = t.ask(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		err = t.decide()
	}
	if err == nil {
		looking, cancel := within(ctx, config.AttachTimeout.Get(n.config))
		defer cancel()
		err = free(looking)
	}
	if err != nil {
		return fail(err)
	}
	return t.release, nil
}

// noMesh is a *NameTakenError when hosts have a mesh of a name and of some kinds that lives.
func (n *Net) noMesh(ctx context.Context, name string, kinds ...string) error {
	all, err := n.Meshes(ctx)
	if err != nil && !errors.Is(err, errNobody) {
		return err
	}
	for _, m := range all {
		if id := m.Procs.ID(); m.Alive() && id.Label() == name && slices.Contains(kinds, m.kind()) {
			return &NameTakenError{Name: name, Kind: m.kind(), Holder: id.String()}
		}
	}
	return nil
}

// notTheSystems is one when the system controller has a world of a name, or a detached mesh: their hosts may be silent, or
// not there yet.
func (n *Net) notTheSystems(ctx context.Context, name string) error {
	system, err := worlds.Find(ctx, n.proc)
	if errors.Is(err, worlds.ErrNoSystem) {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := worlds.Snap.Call(ctx, system, worlds.Filter{Worlds: []string{name}})
	for _, w := range now.Worlds {
		return &NameTakenError{Name: name, Kind: "world", Holder: w.Mesh}
	}
	for _, d := range now.Detached { // its hosts may be silent
		if d.Mesh.Label() == name {
			return &NameTakenError{Name: name, Kind: "mesh", Holder: d.Mesh.String()}
		}
	}
	return err
}

// names are what this process takes, over one bus: whoever shares that hears nothing of what the others ask there.
type names struct {
	mu     sync.Mutex
	taking map[string]*taking
}

// namesKey is where a bus has its names.
type namesKey struct{}

// taking is one who takes a name. Who asks after him hears of him, for he listens before he asks: of any two, one at
// least knows of the other, and those who know of each other are in one order.
type taking struct {
	all              *names
	conn             *bus.Conn
	where, who, name string // who is unique: its proc
	subject          string // the subject of a question
	sub              *bus.Sub
	life             uint64 // of the connection

	mu   sync.Mutex
	lost string // to whom
	has  bool
}

// enter begins to listen. Who takes the same name in this process goes first.
func (n *Net) enter(name string) (*taking, error) {
	space, who := n.proc.Space(), n.proc.ID()
	mesh, err := subjects.ParseMeshID(name + nameUID)
	if err != nil {
		return nil, err
	}
	holder := subjects.ProcID{Mesh: mesh}
	all := n.bus.ValueOr(namesKey{}, &names{taking: map[string]*taking{}}).(*names)
	t := &taking{
		all: all, conn: n.bus.Data(), where: space.PortsOf(holder), who: who.String(), name: name,
		subject: space.Port(holder.Actor("name").Port("take"), who.Process().String()),
	}
	all.mu.Lock()
	if other := all.taking[t.where]; other != nil {
		all.mu.Unlock()
		return nil, t.takenBy(other.who)
	}
	all.taking[t.where] = t
	all.mu.Unlock()
	t.life = t.conn.Connection()
	if t.sub, err = t.conn.Subscribe(t.where, t.asked); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

func (t *taking) takenBy(who string) error {
	return &NameTakenError{Name: t.name, Kind: "program", Holder: who}
}

// release lets others take the name.
func (t *taking) release() {
	t.all.mu.Lock()
	if t.all.taking[t.where] == t {
		delete(t.all.taking, t.where)
	}
	t.all.mu.Unlock()
	if t.sub != nil {
		_ = t.sub.Unsubscribe() // it fails when the connection is gone, and the subscription with it
	}
}

// asked answers another one who takes the name: with who has it or goes before him, or with nothing. It runs on the pump.
func (t *taking) asked(m bus.Msg) {
	t.mu.Lock()
	defer t.mu.Unlock()
	other, answer := string(m.Data), []byte(nil)
	if t.has || t.who < other {
		answer = []byte(t.who)
	} else if t.lost == "" {
		t.lost = other
	}
	_ = t.conn.Publish(m.Reply, answer) // an answer that is lost is none: he who asked fails then
}

// ask asks all who listen.
func (t *taking) ask(ctx context.Context) error {
	for range nameTries {
		if known, err := t.askOnce(ctx); known || err != nil {
			return err
		}
	}
	return fmt.Errorf("somebody takes it too, and did not answer within %s", nameTries*nameWithin)
}

// askOnce is known when somebody has answered, or the server said that nobody listens.
func (t *taking) askOnce(ctx context.Context) (known bool, err error) {
	within, cancel := context.WithTimeout(ctx, nameWithin)
	defer cancel()
	answers := 0
	for m, err := range t.conn.RequestMany(within, bus.Msg{Subject: t.subject, Data: []byte(t.who)}, nameQuiet) {
		switch {
		case err != nil:
			return false, err
		case len(m.Data) > 0:
			return true, t.takenBy(strings.ToValidUTF8(string(m.Data), "?"))
		}
		answers++
	}
	return answers > 0 || within.Err() == nil, ctx.Err()
}

// decide ends the time in which another one may go first.
func (t *taking) decide() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.lost != "":
		return t.takenBy(t.lost)
	case t.conn.Connection() != t.life:
		return fmt.Errorf("%w: what others asked in between was not heard", bus.ErrDisconnected)
	}
	t.has = true
	return nil
}

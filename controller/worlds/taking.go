package worlds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
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

// TakeName has a name for one until release is called. Of several that take it at one moment one succeeds; the others, and
// who comes later, get a *NameTakenError. Once nobody else takes it, free says whether it is that of something which lives.
func TakeName(ctx context.Context, p *actor.Proc, name string, free func(context.Context) error) (release func(), err error) {
	fail := func(err error) (func(), error) {
		if _, taken := errors.AsType[*NameTakenError](err); taken {
			return nil, err // it says it all
		}
		return nil, fmt.Errorf("take the name %s: %w", name, err)
	}
	if err := subjects.CheckLabel("mesh label", name); err != nil {
		return fail(err)
	}
	t, err := enter(p, name)
	if err != nil {
		return fail(err)
	}
	if err = t.take(ctx); err == nil {
		err = free(ctx)
	}
	if err != nil {
		t.release()
		return fail(err)
	}
	return t.release, nil
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
func enter(p *actor.Proc, name string) (*taking, error) {
	space, who := p.Space(), p.ID()
	holder, err := nobody(name)
	if err != nil {
		return nil, err
	}
	all := p.Bus().ValueOr(namesKey{}, &names{taking: map[string]*taking{}}).(*names)
	t := &taking{
		all: all, conn: p.Bus().Data(), where: space.PortsOf(holder), who: who.String(), name: name,
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

// nobody is a proc of the mesh of a name that cannot be.
func nobody(name string) (subjects.ProcID, error) {
	mesh, err := subjects.ParseMeshID(name + nameUID)
	return subjects.ProcID{Mesh: mesh}, err
}

// take asks who else takes the name, and has it when nobody does.
func (t *taking) take(ctx context.Context) error {
	err := t.ask(ctx)
	if err == nil && t.conn.Clustered() {
		select {
		case <-time.After(nameSettles):
			err = t.ask(ctx)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return err
	}
	return t.decide()
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

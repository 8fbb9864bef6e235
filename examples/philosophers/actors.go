package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Types and endpoints of forks and philosophers.
var (
	fork = actor.NewType[*Fork, actor.None]("fork")
	take = actor.NewEndpoint[*Fork, actor.None, actor.None]("take") // replies when the caller gets the fork
	put  = actor.NewEndpoint[*Fork, actor.None, actor.None]("put")

	philosopher = actor.NewType[*Philosopher, actor.None]("philosopher")
	dine        = actor.NewEndpoint[*Philosopher, Dinner, int]("dine") // returns the number of meals
)

func definitions() []actor.Def {
	return []actor.Def{
		fork.Define(newFork, take.Handle((*Fork).take), put.Handle((*Fork).put)),
		philosopher.Define(newPhilosopher, dine.Handle((*Philosopher).dine)),
	}
}

// Fork is held by at most one philosopher.
type Fork struct {
	queue []guest // the first one holds it
	known map[subjects.ActorID]bool
}

type guest struct {
	who   subjects.ActorID
	yours *actor.Deferred[actor.None]
}

func newFork(*actor.Context, actor.None) (*Fork, error) {
	return &Fork{known: map[subjects.ActorID]bool{}}, nil
}

func (f *Fork) take(ctx *actor.Context, _ actor.None) (actor.None, error) {
	who := ctx.Sender()
	if !f.known[who] {
		if _, err := ctx.Monitor(who, func(*actor.Context, actor.Down) { f.leave(who) }); err != nil {
			return actor.None{}, err
		}
		f.known[who] = true
	}
	f.queue = append(f.queue, guest{who, actor.Defer[actor.None](ctx)})
	if len(f.queue) == 1 {
		f.queue[0].yours.Reply(actor.None{}, nil)
	}
	return actor.None{}, nil
}

func (f *Fork) put(ctx *actor.Context, _ actor.None) (actor.None, error) {
	if who := ctx.Sender(); len(f.queue) == 0 || f.queue[0].who != who {
		return actor.None{}, fmt.Errorf("%s does not hold this fork", who)
	}
	f.leave(ctx.Sender())
	return actor.None{}, nil
}

// leave removes a philosopher from the queue. If a new one comes first, it gets the fork.
func (f *Fork) leave(who subjects.ActorID) {
	i := slices.IndexFunc(f.queue, func(g guest) bool { return g.who == who })
	if i < 0 {
		return
	}
	f.queue = slices.Delete(f.queue, i, i+1)
	if i == 0 && len(f.queue) > 0 {
		f.queue[0].yours.Reply(actor.None{}, nil)
	}
}

// Dinner is the message to all philosophers.
type Dinner struct {
	Forks  []actor.Ref[*Fork] // in a circle: the philosopher of rank i sits between forks i and i+1
	Meals  int                // for each philosopher
	Choke  int                // rank that dies at the table; -1 = none
	Report actor.PortRef[Moment]
}

// dies lists the ranks to die at the table.
func (d Dinner) dies() []int {
	if d.Choke < 0 || d.Meals <= fatal {
		return nil
	}
	return []int{d.Choke}
}

// forks returns the two forks of a seat, the lower number first. This order prevents a deadlock.
func forks(seat, seats int) (first, second int) {
	right := (seat + 1) % seats
	return min(seat, right), max(seat, right)
}

// Moment is an event of the dinner: a philosopher's new activity.
type Moment struct {
	Seat int
	Does Doing
	At   time.Time
}

// Doing is an activity at the table.
type Doing int

// A philosopher thinks, gets hungry, eats, and thinks again.
const (
	Thinks Doing = iota
	Hungers
	Eats
	Dies
)

// Philosopher thinks and eats.
type Philosopher struct{}

func newPhilosopher(*actor.Context, actor.None) (*Philosopher, error) { return &Philosopher{}, nil }

// dine runs as a task beside the actor's turn and replies at the end.
func (*Philosopher) dine(ctx *actor.Context, d Dinner) (int, error) {
	seat := ctx.Point().Rank()
	answer := actor.Defer[int](ctx)
	ctx.Go(func(ctx context.Context) func(*actor.Context) {
		for meal := range d.Meals {
			if err := d.meal(ctx, seat, seat == d.Choke && meal == fatal); err != nil {
				answer.Reply(meal, err)
				return nil
			}
		}
		answer.Reply(d.Meals, nil)
		return nil
	})
	return 0, nil
}

// fatal is the index of the deadly meal, from 0.
const fatal = 2

// meal is one meal: think, take both forks, eat, put them back.
func (d Dinner) meal(ctx context.Context, seat int, choke bool) error {
	first, second := forks(seat, len(d.Forks))
	report := func(does Doing) error { return d.Report.Send(ctx, Moment{seat, does, time.Now()}) }
	pause(ctx)
	if err := report(Hungers); err != nil {
		return err
	}
	for _, i := range []int{first, second} {
		if _, err := take.Call(ctx, d.Forks[i], actor.None{}); err != nil {
			return fmt.Errorf("take fork %d: %w", i, err)
		}
	}
	if err := report(Eats); err != nil {
		return err
	}
	pause(ctx)
	if choke {
		fmt.Fprintln(os.Stderr, "a fishbone!")
		os.Exit(1) // a crash, with both forks in hand
	}
	if err := report(Thinks); err != nil {
		return err
	}
	for _, i := range []int{second, first} {
		if _, err := put.Call(ctx, d.Forks[i], actor.None{}); err != nil {
			return fmt.Errorf("put fork %d: %w", i, err)
		}
	}
	return ctx.Err()
}

// pause waits for the time of one thought or bite.
func pause(ctx context.Context) {
	select {
	case <-time.After(20*time.Millisecond + rand.N(60*time.Millisecond)):
	case <-ctx.Done():
	}
}

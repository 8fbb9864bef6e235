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

// What forks and philosophers can be asked.
var (
	fork = actor.NewType[*Fork, actor.None]("fork")
	take = actor.NewEndpoint[*Fork, actor.None, actor.None]("take") // answered when it is the caller's
	put  = actor.NewEndpoint[*Fork, actor.None, actor.None]("put")

	philosopher = actor.NewType[*Philosopher, actor.None]("philosopher")
	dine        = actor.NewEndpoint[*Philosopher, Dinner, int]("dine") // answered with the meals
)

func definitions() []actor.Def {
	return []actor.Def{
		fork.Made(newFork, take.By((*Fork).take), put.By((*Fork).put)),
		philosopher.Made(newPhilosopher, dine.By((*Philosopher).dine)),
	}
}

// Fork is held by one philosopher at most.
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

// leave takes somebody out of the queue; whoever is first then, and was not before, gets the fork.
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

// Dinner is what the philosophers are told, all in one message.
type Dinner struct {
	Forks  []actor.Ref[*Fork] // in a circle: the philosopher of rank i sits between forks i and i+1
	Meals  int                // for each
	Choke  int                // the rank that dies at the table; -1 = nobody
	Report actor.PortRef[Moment]
}

// dies says who is to die at the table.
func (d Dinner) dies() []int {
	if d.Choke < 0 || d.Meals <= fatal {
		return nil
	}
	return []int{d.Choke}
}

// forks are the two of a seat, the lower number first: this is what keeps the table from locking up.
func forks(seat, seats int) (first, second int) {
	right := (seat + 1) % seats
	return min(seat, right), max(seat, right)
}

// Moment is what somebody at the table does from now on.
type Moment struct {
	Seat int
	Does Doing
	At   time.Time
}

// Doing is what one can do at a table.
type Doing int

// A philosopher thinks, wants to eat, eats, and thinks again.
const (
	Thinks Doing = iota
	Hungers
	Eats
	Dies
)

// Philosopher thinks and eats.
type Philosopher struct{}

func newPhilosopher(*actor.Context, actor.None) (*Philosopher, error) { return &Philosopher{}, nil }

// dine takes long, so it goes on beside the actor's turn and answers when it is done.
func (*Philosopher) dine(ctx *actor.Context, d Dinner) (int, error) {
	seat, answer := ctx.Point().Rank(), actor.Defer[int](ctx)
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

// fatal is the meal that somebody chokes on, counted from 0.
const fatal = 2

// meal is one of them: think, take both forks, eat, put them back.
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
		os.Exit(1) // no goodbye to anybody: its forks are still in its hands
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

// pause is how long one thinks or eats.
func pause(ctx context.Context) {
	select {
	case <-time.After(20*time.Millisecond + rand.N(60*time.Millisecond)):
	case <-ctx.Done():
	}
}

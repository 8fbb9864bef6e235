package actortest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/subjects"
)

// Actor types of this kit; Actors binds them.
var (
	TestActors     = actor.NewType[TestActor, actor.None]("test-actor")
	Supervisors    = actor.NewType[TestActor, actor.None]("supervisor")     // a TestActor that handles every end of a child
	FailingCreates = actor.NewType[TestActor, actor.None]("failing-create") // its constructor fails: "test failure"
	SleepActors    = actor.NewType[*SleepActor, actor.None]("sleep-actor")
)

// What a TestActor can be asked.
var (
	GetActorID   = actor.NewEndpoint[TestActor, actor.None, subjects.ActorID]("get-actor-id")
	GetCastInfo  = actor.NewEndpoint[TestActor, actor.None, CastInfo]("get-cast-info")
	CauseFailure = actor.NewEndpoint[TestActor, Failure, actor.None]("cause-failure")
	Forward      = actor.NewEndpoint[TestActor, Route, actor.None]("forward")
	SpawnTest    = actor.NewEndpoint[TestActor, actor.None, actor.Ref[TestActor]]("spawn-test") // makes a child that is a TestActor
)

// Sleep takes the turn of a SleepActor for so long, whatever happens to it.
var Sleep = actor.NewEndpoint[*SleepActor, time.Duration, actor.None]("sleep")

// Actors are the definitions of all actor types of this kit.
func Actors() []actor.Def {
	return []actor.Def{
		TestActors.Made(newTester, testMethods()...),
		Supervisors.Made(func(ctx *actor.Context, _ actor.None) (TestActor, error) { return supervisor{&tester{}}, nil }, testMethods()...),
		FailingCreates.Made(func(*actor.Context, actor.None) (TestActor, error) { return nil, errors.New("test failure") }, testMethods()...),
		SleepActors.Made(func(*actor.Context, actor.None) (*SleepActor, error) { return &SleepActor{}, nil }, Sleep.By((*SleepActor).sleep)),
		PingPongs.Made(newPingPong, Ping.By((*PingPong).ping)),
		Wrappers.Made(newWrapper, WrapperFailure.By((*Wrapper).cause), WrappedActor.By((*Wrapper).wrapped), NextFailure.By((*Wrapper).next)),
	}
}

// TestActor is asked what it knows, and to fail.
type TestActor interface {
	actorID(*actor.Context, actor.None) (subjects.ActorID, error)
	castInfo(*actor.Context, actor.None) (CastInfo, error)
	causeFailure(*actor.Context, Failure) (actor.None, error)
	forward(*actor.Context, Route) (actor.None, error)
	spawnTest(*actor.Context, actor.None) (actor.Ref[TestActor], error)
}

func testMethods() []actor.Method[TestActor] {
	return []actor.Method[TestActor]{
		GetActorID.By(TestActor.actorID), GetCastInfo.By(TestActor.castInfo), CauseFailure.By(TestActor.causeFailure),
		Forward.By(TestActor.forward), SpawnTest.By(TestActor.spawnTest),
	}
}

// CastInfo is how a TestActor sees the message it handles.
type CastInfo struct {
	Rank   int   // its place in the view of the cast
	Coords []int // the same, by dimension
	Self   subjects.ActorID
	Sender subjects.ActorID
}

// Failure says how a TestActor fails.
type Failure struct {
	Kind     FailureKind
	Code     int  // the exit code, of Exit
	Children bool // not the actor: the children it spawned, in order
}

// FailureKind is a way to fail. All but Panic end the process, as such things do in earnest: they are
// for actors in a process that the test has started for that.
type FailureKind string

// Kinds of failures.
const (
	Panic FailureKind = "panic" // a panic of the handler: "for testing"
	Exit  FailureKind = "exit"  // os.Exit
	Kill  FailureKind = "kill"  // SIGKILL to itself
	Fault FailureKind = "fault" // SIGSEGV to itself: the Go runtime prints its stacks and exits with 2
)

// Route is what Forward takes: who is still to be visited, the receiver first, and who was. The last
// one sends it to Home, with nobody left to visit.
type Route struct {
	ToVisit, Visited []actor.Ref[TestActor]
	Home             actor.PortRef[Route]
}

type tester struct{ children []actor.Ref[TestActor] }

func newTester(*actor.Context, actor.None) (TestActor, error) { return &tester{}, nil }

func (t *tester) actorID(ctx *actor.Context, _ actor.None) (subjects.ActorID, error) {
	return ctx.Self(), nil
}

func (t *tester) castInfo(ctx *actor.Context, _ actor.None) (CastInfo, error) {
	at := ctx.Point()
	return CastInfo{Rank: at.Rank(), Coords: at.Coords(), Self: ctx.Self(), Sender: ctx.Sender()}, nil
}

func (t *tester) spawnTest(ctx *actor.Context, _ actor.None) (actor.Ref[TestActor], error) {
	child, err := actor.SpawnChild(ctx, TestActors, TestActors.Name(), actor.None{})
	if err == nil {
		t.children = append(t.children, child)
	}
	return child, err
}

func (t *tester) causeFailure(ctx *actor.Context, f Failure) (actor.None, error) {
	if f.Children {
		for _, c := range t.children {
			if err := CauseFailure.Post(ctx, c, Failure{Kind: f.Kind, Code: f.Code}); err != nil {
				return actor.None{}, err
			}
		}
		return actor.None{}, nil
	}
	switch f.Kind {
	case Panic:
		panic("for testing")
	case Exit:
		os.Exit(f.Code)
	case Kill:
		return actor.None{}, signalSelf(ctx, syscall.SIGKILL)
	case Fault:
		return actor.None{}, signalSelf(ctx, syscall.SIGSEGV)
	}
	return actor.None{}, fmt.Errorf("cause a failure of kind %q: want %s, %s, %s or %s", f.Kind, Panic, Exit, Kill, Fault)
}

// signalSelf returns only when the process survives.
func signalSelf(ctx *actor.Context, s syscall.Signal) error {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Signal(s)
	}
	if err != nil {
		return fmt.Errorf("signal itself: %w", err)
	}
	<-ctx.Done()
	return fmt.Errorf("the process survived signal %d", s)
}

func (t *tester) forward(ctx *actor.Context, r Route) (actor.None, error) {
	if len(r.ToVisit) == 0 {
		return actor.None{}, errors.New("forward: nobody is left to visit")
	}
	r.Visited = append(r.Visited, r.ToVisit[0])
	r.ToVisit = r.ToVisit[1:]
	if len(r.ToVisit) == 0 {
		return actor.None{}, r.Home.Send(ctx, r)
	}
	return actor.None{}, Forward.Post(ctx, r.ToVisit[0], r)
}

// supervisor is a TestActor that handles every end of a child.
type supervisor struct{ *tester }

func (supervisor) Supervise(*actor.Context, actor.Event) (handled bool, err error) { return true, nil }

// SleepActor has a handler that cannot be interrupted.
type SleepActor struct{}

func (*SleepActor) sleep(_ *actor.Context, d time.Duration) (actor.None, error) {
	<-time.After(d)
	return actor.None{}, nil
}

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
	TestActors = actor.NewType[TestActor, actor.None]("test-actor")
	// a TestActor that handles every end of a child
	Supervisors = actor.NewType[TestActor, actor.None]("supervisor")
	// its constructor fails: "test failure"
	FailingCreates = actor.NewType[TestActor, actor.None]("failing-create")
	SleepActors    = actor.NewType[*SleepActor, actor.None]("sleep-actor")
)

// Endpoints of a TestActor.
var (
	GetActorID   = actor.NewEndpoint[TestActor, actor.None, subjects.ActorID]("get-actor-id")
	GetCastInfo  = actor.NewEndpoint[TestActor, actor.None, CastInfo]("get-cast-info")
	CauseFailure = actor.NewEndpoint[TestActor, Failure, actor.None]("cause-failure")
	Forward      = actor.NewEndpoint[TestActor, Route, actor.None]("forward")
	// spawns a TestActor as a child
	SpawnTest = actor.NewEndpoint[TestActor, actor.None, actor.Ref[TestActor]]("spawn-test")
)

// Sleep occupies the turn of a SleepActor for that long, without interruption.
var Sleep = actor.NewEndpoint[*SleepActor, time.Duration, actor.None]("sleep")

// Actors are the definitions of all actor types of this kit.
func Actors() []actor.Def {
	return []actor.Def{
		TestActors.Define(newTestActor, testMethods()...),
		Supervisors.Define(func(*actor.Context, actor.None) (TestActor, error) {
			return supervisingActor{&testActor{}}, nil
		}, testMethods()...),
		FailingCreates.Define(func(*actor.Context, actor.None) (TestActor, error) {
			return nil, errors.New("test failure")
		}, testMethods()...),
		SleepActors.Define(func(*actor.Context, actor.None) (*SleepActor, error) {
			return &SleepActor{}, nil
		}, Sleep.Handle((*SleepActor).sleep)),
		PingPongs.Define(newPingPong, Ping.Handle((*PingPong).ping)),
		Wrappers.Define(newWrapper, WrapperFailure.Handle((*Wrapper).causeFailure),
			WrappedActor.Handle((*Wrapper).wrapped), NextFailure.Handle((*Wrapper).nextFailure)),
	}
}

// TestActor answers questions about itself, and fails on request.
type TestActor interface {
	actorID(*actor.Context, actor.None) (subjects.ActorID, error)
	castInfo(*actor.Context, actor.None) (CastInfo, error)
	causeFailure(*actor.Context, Failure) (actor.None, error)
	forward(*actor.Context, Route) (actor.None, error)
	spawnTest(*actor.Context, actor.None) (actor.Ref[TestActor], error)
}

func testMethods() []actor.Method[TestActor] {
	return []actor.Method[TestActor]{
		GetActorID.Handle(TestActor.actorID), GetCastInfo.Handle(TestActor.castInfo),
		CauseFailure.Handle(TestActor.causeFailure),
		Forward.Handle(TestActor.forward), SpawnTest.Handle(TestActor.spawnTest),
	}
}

// CastInfo describes the message that a TestActor handles.
type CastInfo struct {
	Rank   int   // its place in the view of the cast
	Coords []int // the same, by dimension
	Self   subjects.ActorID
	Sender subjects.ActorID
}

// Failure selects a failure of a TestActor.
type Failure struct {
	Kind     FailureKind
	Code     int  // the exit code, of Exit
	Children bool // not the actor: the children it spawned, in order
}

// FailureKind is a kind of failure. All but Panic end the process, as real ones do: use them in a
// process started for the test.
type FailureKind string

// Kinds of failures.
const (
	Panic FailureKind = "panic" // a panic of the handler: "for testing"
	Exit  FailureKind = "exit"  // os.Exit
	Kill  FailureKind = "kill"  // SIGKILL to itself
	Fault FailureKind = "fault" // SIGSEGV to itself: the Go runtime prints its stacks and exits with 2
)

// Route is the message of Forward: the actors still to be visited, the receiver first, and the
// visited ones. The last actor sends it to Home, with none left to visit.
type Route struct {
	ToVisit, Visited []actor.Ref[TestActor]
	Home             actor.PortRef[Route]
}

type testActor struct{ children []actor.Ref[TestActor] }

func newTestActor(*actor.Context, actor.None) (TestActor, error) { return &testActor{}, nil }

func (t *testActor) actorID(ctx *actor.Context, _ actor.None) (subjects.ActorID, error) {
	return ctx.Self(), nil
}

func (t *testActor) castInfo(ctx *actor.Context, _ actor.None) (CastInfo, error) {
	at := ctx.Point()
	return CastInfo{Rank: at.Rank(), Coords: at.Coords(), Self: ctx.Self(), Sender: ctx.Sender()}, nil
}

func (t *testActor) spawnTest(ctx *actor.Context, _ actor.None) (actor.Ref[TestActor], error) {
	child, err := actor.SpawnChild(ctx, TestActors, TestActors.Name(), actor.None{})
	if err == nil {
		t.children = append(t.children, child)
	}
	return child, err
}

func (t *testActor) causeFailure(ctx *actor.Context, f Failure) (actor.None, error) {
	if f.Children {
		for _, c := range t.children {
			if err := CauseFailure.Send(ctx, c, Failure{Kind: f.Kind, Code: f.Code}); err != nil {
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
		return actor.None{}, killSelf(ctx, syscall.SIGKILL)
	case Fault:
		return actor.None{}, killSelf(ctx, syscall.SIGSEGV)
	}
	return actor.None{}, fmt.Errorf("cause a failure of kind %q: want %s, %s, %s or %s", f.Kind, Panic, Exit,
		Kill, Fault)
}

// killSelf returns only when the process survives.
func killSelf(ctx *actor.Context, s syscall.Signal) error {
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

func (t *testActor) forward(ctx *actor.Context, r Route) (actor.None, error) {
	if len(r.ToVisit) == 0 {
		return actor.None{}, errors.New("forward: no actor is left to visit")
	}
	r.Visited = append(r.Visited, r.ToVisit[0])
	r.ToVisit = r.ToVisit[1:]
	if len(r.ToVisit) == 0 {
		return actor.None{}, r.Home.Send(ctx, r)
	}
	return actor.None{}, Forward.Send(ctx, r.ToVisit[0], r)
}

// supervisingActor is a TestActor that handles every end of a child.
type supervisingActor struct{ *testActor }

func (supervisingActor) Supervise(*actor.Context, actor.Event) (handled bool, err error) {
	return true, nil
}

// SleepActor has an uninterruptible handler.
type SleepActor struct{}

func (*SleepActor) sleep(_ *actor.Context, d time.Duration) (actor.None, error) {
	<-time.After(d)
	return actor.None{}, nil
}

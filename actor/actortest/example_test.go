package actortest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/actor/actortest"
)

// A till books its payments. Its ledger is a probe.
func Example() {
	runTest(func(t testing.TB) { // func TestTill_books(t *testing.T) {
		rig := actortest.New(t, tillDef())
		ledger := actortest.NewProbe[*Ledger](rig)
		booked := actortest.On(ledger, book)
		booked.Reply(func(n int) (int, error) { return 100 + n, nil })
		ref := actortest.Spawn(rig, tills, ledger.Ref())

		n, err := deposit.Call(rig.Context(), ref, 5)
		fmt.Println(n, err)
		got := booked.Next()
		fmt.Println(got.Value, got.From == ref.ID(), got.IsCall)
		booked.None()
	})
	// Output:
	// 105 <nil>
	// 5 true true
}

// A child of the actor under test can be a probe, too.
func ExampleReplaceType() {
	runTest(func(t testing.TB) {
		rig := actortest.New(t, tillDef())
		ledger, born := actortest.ReplaceType(rig, ledgers)
		struck := actortest.On(ledger, strike)
		ref := actortest.Spawn(rig, tills, actor.RefOf[*Ledger](rig.Proc().ID().Actor("none")))

		fmt.Println(open.Send(rig.Context(), ref, "second")) // spawns a ledger, and strikes 6 there
		fmt.Println(born.Next().Value, struck.Next().Value)
	})
	// Output:
	// <nil>
	// second 6
}

// A failure fails the test, unless the test expects it.
func ExampleRig_ExpectFailure() {
	runTest(func(t testing.TB) {
		rig := actortest.New(t, actortest.Actors()...)
		ref := actortest.Spawn(rig, actortest.TestActors, actor.None{})
		fmt.Println(actortest.CauseFailure.Send(rig.Context(), ref, actortest.Failure{Kind: actortest.Panic}))
		reason, _, _ := strings.Cut(rig.ExpectFailure(ref).Reason, " (") // and its place in the code
		fmt.Println(reason)
	})
	// Output:
	// <nil>
	// cause-failure: panicked: for testing
}

// runTest runs a test as go test does.
func runTest(body func(testing.TB)) {
	for _, failure := range play(context.Background(), body) {
		fmt.Println(failure)
	}
}

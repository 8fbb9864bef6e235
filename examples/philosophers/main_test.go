package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/agent/proc"
)

// Philosophers and forks run this test binary.
func TestMain(m *testing.M) {
	proc.Main(definitions()...)
	goleak.VerifyTestMain(m)
}

func dinnerOf(t *testing.T, meals int, choke string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	require.NoError(t, run(ctx, meals, choke, &out)) // which checks the forks
	require.Contains(t, out.String(), "no fork was ever in two hands")
	return out.String()
}

func TestPhilosophers_allEatTheirMeals(t *testing.T) {
	out := dinnerOf(t, 6, "")
	for _, name := range names {
		require.Contains(t, out, name+"  6")
	}
	require.NotContains(t, out, "†")
}

// With three meals each, the death may be the last event.
func TestPhilosophers_oneDiesHoldingForksAndTheOthersContinue(t *testing.T) {
	out := dinnerOf(t, 3, "Kant")
	require.Regexp(t, `(?m)^Kant is dead: .* exited with code 1\n  stderr: a fishbone!$`, out)
	require.Contains(t, out, "† Kant  2")
	for _, name := range []string{"Plato", "Hypatia", "Laozi", "Arendt"} {
		require.Contains(t, out, name+"  3")
	}
}

func TestPhilosophers_namesWhoMayChoke(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), 5, "Zeno", nil),
		`"Zeno" chokes: want 1 meal or more, and one of Plato`)
}

// The order of forks, and with it the absence of a deadlock: the second is always the higher one.
func TestForks_areTakenInNumericalOrder(t *testing.T) {
	for seat := range 5 {
		first, second := forks(seat, 5)
		require.Less(t, first, second)
		require.Subset(t, []int{seat, (seat + 1) % 5}, []int{first, second})
	}
}

func TestCheck_findsAForkInTwoHands(t *testing.T) {
	at := time.Now()
	moment := func(seat int, does Doing, after int) Moment {
		return Moment{seat, does, at.Add(time.Duration(after) * time.Second)}
	}
	good := []Moment{moment(0, Eats, 1), moment(2, Eats, 2), moment(0, Thinks, 3), moment(1, Hungers, 0),
		moment(2, Dies, 4), moment(1, Eats, 5)}
	require.NoError(t, (&table{moments: good}).check(1))
	bad := []Moment{moment(0, Eats, 1), moment(1, Eats, 2), moment(0, Thinks, 3)}
	require.EqualError(t, (&table{moments: bad}).check(1), "Hypatia eats with fork 1 while Plato does")
	greedy := []Moment{moment(0, Thinks, 1), moment(0, Thinks, 2)}
	require.EqualError(t, (&table{moments: greedy}).check(1), "Plato has had 2 meals: want 1")
}

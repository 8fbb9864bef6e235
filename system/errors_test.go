package system

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
)

// overBus is an error in its form from another process.
func overBus(err error) error {
	return fmt.Errorf("ask: %w", actor.FromWire(actor.EncodeError(fmt.Errorf("world w: %w", err))))
}

func TestErrors_nameErrorsKeepTypeAndFieldsOnTheWire(t *testing.T) {
	taken := &NameTakenError{Name: "train", Kind: "world", Holder: "train-0000000000001"}
	exists := &ExistsError{World: "train", Shape: "x=4", PerHost: 2, Command: "/bin/train", Changes: []string{"limits"}}
	label := &LabelError{Object: "world train", Label: "team", Current: "red", Requested: "blue"}
	conflict := &agent.ConflictError{ID: "train-0000000000001"}
	for _, err := range []error{taken, exists, label, conflict} {
		came := overBus(err)
		a, isTaken := errors.AsType[*NameTakenError](came)
		b, isExists := errors.AsType[*ExistsError](came)
		c, isLabel := errors.AsType[*LabelError](came)
		d, isConflict := errors.AsType[*agent.ConflictError](came)
		require.Contains(t, []error{a, b, c, d}, err)
		is := map[bool]int{}
		for _, x := range []bool{isTaken, isExists, isLabel, isConflict} {
			is[x]++
		}
		require.Equal(t, 1, is[true], "%v is of one type", came)
		e, _ := errors.AsType[*actor.Error](came)
		require.True(t, e.Refused() && !e.Undeliverable() && !e.Indeterminate())
		require.Equal(t, 409, e.HTTPCode())
		require.ErrorContains(t, came, "world w: "+err.Error())
	}
	for _, code := range []actor.Code{actor.CodeNameTaken, actor.CodeConflict} {
		for _, detail := range []string{"", "{", "{}", "7"} {
			_, is := errors.AsType[*NameTakenError](error(&actor.Error{Code: code, Detail: []byte(detail)}))
			require.False(t, is, "%d %s", code, detail)
		}
	}
}

func TestShareReport_costIsIndependentOfRanks_WORLD9(t *testing.T) {
	e := actor.Event{Mesh: "w-0000000000000", Host: "a-0000000000000", Status: string(actor.Failed),
		Reason: "why", Rank: 2, Count: 1 << 40}
	r, ok := parseShareReport(e)
	require.True(t, ok)
	require.Equal(t, agent.Overlay{{First: 2, Count: 1 << 40,
		Status: agent.Status{Phase: agent.Failed, Reason: "why"}}}, r.now)
	var ranks []int
	r.now.Each(4, func(rank int, _ agent.Status) { ranks = append(ranks, rank) })
	require.Equal(t, []int{2, 3}, ranks, "those of the share")
}

package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
)

func TestPhase_textRoundTripsAndOtherTextIsRefused(t *testing.T) {
	for p := agent.NotExist; p <= agent.Unknown; p++ {
		b, err := p.MarshalText()
		require.NoError(t, err)
		var back agent.Phase
		require.NoError(t, back.UnmarshalText(b))
		require.Equal(t, p, back)
		require.Equal(t, p == agent.Stopped || p == agent.Failed, p.Terminal())
	}
	var p agent.Phase
	require.ErrorContains(t, p.UnmarshalText([]byte("sleeping")),
		`phase "sleeping": want one of [not-exist initializing running stopping`)
	require.Equal(t, "phase(9)", agent.Phase(9).String())
	require.Equal(t, "phase(-1)", agent.Phase(-1).String())
	require.Error(t, json.Unmarshal([]byte(`{"until":3}`), &agent.WaitRequest{}))
}

func TestStates_joinInRankOrder(t *testing.T) {
	a, b := []agent.State{{Rank: 0}}, []agent.State{{Rank: 1}, {Rank: 2}}
	all, err := agent.JoinStates.Fold(a[:1:1], b)
	require.NoError(t, err)
	require.Equal(t, []agent.State{{Rank: 0}, {Rank: 1}, {Rank: 2}}, all)
}

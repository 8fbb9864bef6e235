package agent_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

func claim(epoch uint64, owner string) agent.Claim {
	return agent.Claim{Epoch: epoch, Owner: read[subjects.ActorID]("client-000000000000c/0.0/" + owner)}
}

func TestClaim_laterClaimWinsAndFormerOneIsRefused_AGT10(t *testing.T) {
	table := agent.NewTable()
	first, second := claim(1, "a"), claim(2, "a")
	m := &agent.Mesh{Owner: first.Owner}
	making := agent.ResourceSpec{ID: "m", Ranks: []int{0}, Mesh: m, Claim: first, Agent: "n1"}
	_, err := table.Create(making)
	require.NoError(t, err)
	require.NoError(t, table.AcceptClaim("n1", "m", agent.Claim{}, subjects.Sender{}), "an order without a claim passes")
	require.NoError(t, table.AcceptClaim("n1", "other", claim(9, "z"), subjects.Sender{}), "no resource of that name")
	require.Equal(t, first, *table.States("m")[0].Claim)

	second.Owner = claim(0, "b").Owner
	require.NoError(t, table.AcceptClaim("n1", "m", second, subjects.Sender{}))
	now := table.States("m")[0]
	require.Equal(t, second, *now.Claim)
	require.Equal(t, second.Owner, now.Mesh.Owner)
	require.Equal(t, first.Owner, m.Owner, "the earlier answer is unchanged")

	want := &agent.FencedError{ID: "m", Agent: "n1", Requested: first, Current: second}
	require.Equal(t, want, table.AcceptClaim("n1", "m", first, subjects.Sender{}))
	making.Gen = 1
	_, err = table.Create(making)
	require.Equal(t, want, err)
	require.Zero(t, table.Gen("m", 0))

	require.Error(t, table.AcceptClaim("n1", "m", claim(2, "a"), subjects.Sender{}),
		"of one epoch, one owner goes first everywhere")
	require.NoError(t, table.AcceptClaim("n1", "m", claim(2, "c"), subjects.Sender{}))
}

// A host adopts the procs of a mesh one by one, from records that name the maker of the mesh.
func TestClaim_ownerOfTheNewestClaimOwnsEveryRecordedRank_AGT10(t *testing.T) {
	table := agent.NewTable()
	maker, adopter := claim(1, "a"), claim(2, "b")
	for _, rank := range []int{0, 1, 2} {
		_, err := table.Create(agent.ResourceSpec{
			ID: "m", Ranks: []int{0, 1, 2}, OnlyRanks: []int{rank}, Mesh: &agent.Mesh{Owner: maker.Owner},
			Claim: adopter, Agent: "n1",
		})
		require.NoError(t, err)
		require.Equal(t, adopter.Owner, table.States("m")[0].Mesh.Owner, "after rank %d", rank)
	}
}

func TestFenced_isFoundInDecodedErrors(t *testing.T) {
	want := &agent.FencedError{ID: "workers-000000000000m", Agent: "n1", Requested: claim(1, "a"),
		Current: claim(2, "b")}
	text := "workers-000000000000m on n1 belongs to client-000000000000c/0.0/b since epoch 2: the request is " +
		"from client-000000000000c/0.0/a in epoch 1"
	require.EqualError(t, want, text)
	came := actor.FromWire(actor.EncodeError(want))
	for name, err := range map[string]error{
		"itself": want, "wrapped": fmt.Errorf("stop: %w", want), "over the bus": came,
		"of some ranks": errors.Join(errors.New("no luck"), fmt.Errorf("rank 1: %w", came)),
	} {
		require.Equal(t, want, agent.AsFenced(err), name)
	}
	require.Equal(t, actor.CodeFenced, came.Code)
	require.EqualError(t, came, text)
	require.False(t, came.Undeliverable() || came.Indeterminate(), "a handler has refused it")
	again := actor.FromWire(actor.EncodeError(fmt.Errorf("on the way: %w", came)))
	require.Equal(t, want, agent.AsFenced(again), "the error survives the bus")
	for _, err := range []error{
		nil, errors.New(text), came.Unwrap(), &actor.Error{Code: actor.CodeHandler, Text: text},
		&actor.Error{Code: actor.CodeFenced, Text: text},
		&actor.Error{Code: actor.CodeFenced, Detail: []byte(`{"id":"m","has":{"epoch":2,"owner":"nobody"}}`)},
		&actor.Error{Code: actor.CodeFenced, Detail: []byte("{}")},
	} {
		require.Nil(t, agent.AsFenced(err), "%v", err)
	}
}

// A process is no evidence: where procs share a principal, each can name the process of the owner.
func TestClaim_anotherPrincipalWithTheOwnersProcessIsRefused_AGT13(t *testing.T) {
	table := agent.NewTable()
	first := claim(1, "a")
	owner := subjects.NewSender(subjects.Program.Principal("alice"), first.Owner.Proc.Process())
	_, err := table.Create(agent.ResourceSpec{ID: "m", Ranks: []int{0}, Claim: first, By: owner, Agent: "n1"})
	require.NoError(t, err)
	require.Equal(t, owner.Principal(), table.States("m")[0].Principal)
	for _, role := range []subjects.Role{subjects.Program, subjects.Proc, subjects.Host} {
		thief := subjects.NewSender(role.Principal("evil"), first.Owner.Proc.Process())
		for _, c := range []agent.Claim{{}, first, claim(7, "a")} {
			require.ErrorAs(t, table.AcceptClaim("n1", "m", c, thief), new(*agent.NotOwnerError), "%s %v", thief, c)
		}
		require.False(t, table.MayRead("m", thief), thief)
	}
	require.NoError(t, table.AcceptClaim("n1", "m", first, owner))
}

// An agent that follows an earlier one knows the principal of the owner from a record.
func TestClaim_strangersAreRefusedAfterARestart_AGT13(t *testing.T) {
	table := agent.NewTable()
	first := claim(1, "a")
	alice := subjects.Program.Principal("alice")
	_, err := table.Create(agent.ResourceSpec{
		ID: "m", Ranks: []int{0}, Claim: first, Principal: alice, Agent: "n1",
	})
	require.NoError(t, err)
	other := claim(2, "b")
	thief := subjects.NewSender(subjects.Program.Principal("bob"), other.Owner.Proc.Process())
	require.ErrorAs(t, table.AcceptClaim("n1", "m", other, thief), new(*agent.NotOwnerError))
	require.NoError(t, table.AcceptClaim("n1", "m", other, subjects.NewSender(alice, other.Owner.Proc.Process())))
}

func TestTable_showsArgumentsToOwnersAndOperators_AGT13(t *testing.T) {
	table := agent.NewTable()
	own, detached := claim(1, "a"), claim(1, "s")
	create := func(id string, c agent.Claim, by subjects.Principal) {
		_, err := table.Create(agent.ResourceSpec{ID: id, Ranks: []int{0}, Claim: c, Agent: "n1",
			By: subjects.NewSender(by, c.Owner.Proc.Process())})
		require.NoError(t, err)
	}
	create("own", own, subjects.Program.Principal("alice"))
	create("detached", detached, subjects.System.Principal("n1"))
	elsewhere := read[subjects.ActorID]("other-000000000000e/0.0/x").Proc.Process()
	may := func(mesh string) (who []string) {
		for _, role := range subjects.AllRoles() {
			for _, label := range []string{"alice", "bob"} {
				if p := role.Principal(label); table.MayRead(mesh, subjects.NewSender(p, elsewhere)) {
					who = append(who, p.String())
				}
			}
		}
		return who
	}
	always := []string{"o-alice", "o-bob", "s-alice", "s-bob"}
	require.Equal(t, append([]string{"u-alice"}, always...), may("own"))
	adopters := []string{"u-alice", "u-bob", "o-alice", "o-bob", "p-alice", "p-bob", "s-alice", "s-bob"}
	require.Equal(t, adopters, may("detached"))
	require.True(t, table.MayRead("own", subjects.Sender{}))
}

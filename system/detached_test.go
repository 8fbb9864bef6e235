package system

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// giving is a mesh handed over by its owner in an epoch.
func (s *scenario) giving(text string, epoch uint64) DetachRequest {
	id, err := subjects.ParseMeshID(text)
	require.NoError(s.t, err)
	owner, err := subjects.ParseActorID("client-000000000000c/0.0/controller-000000000000d")
	require.NoError(s.t, err)
	return DetachRequest{Mesh: id, Claim: agent.Claim{Epoch: epoch, Owner: owner},
		Hosts: []subjects.HostID{s.host("a")}}
}

// someone is a sender in the process of the system controller.
var someone subjects.Sender

// effectsOf lists the effects of a step on detached meshes, a word each.
func effectsOf(out []any) string {
	var words []string
	for _, e := range out {
		switch e := e.(type) {
		case saveRecord:
			if e.record.Detached == nil {
				continue // of a world
			}
			words = append(words, fmt.Sprintf("save-%d", e.record.Detached.CurrentClaim.Epoch))
		case deleteRecord:
			words = append(words, "forget")
		case takeOwnership:
			words = append(words, fmt.Sprintf("take-%d", e.record.CurrentClaim.Epoch))
		case releaseDetached:
			words = append(words, map[bool]string{true: "stop", false: "let-go"}[e.stop])
		case answer:
			word := fmt.Sprintf("answer-%d", e.to)
			if e.err != nil {
				word += "-refused"
			}
			words = append(words, word)
		case worldEvent:
			words = append(words, e.step)
		case quit:
			words = append(words, "quit")
		default:
			words = append(words, fmt.Sprintf("%T", e))
		}
	}
	return strings.Join(words, " ")
}

func TestDetached_isSavedBeforeHostsAndCallersHear_WORLD16(t *testing.T) {
	s := newScenario(t)
	s.st.self = s.proc("system/0.0")
	words := s.giving("words-0000000000001", 1)
	step := func(e any) string { return effectsOf(s.st.step(e, s.now)) }
	require.Equal(t, "save-2 take-2", step(detach{from(1), someone, words}))
	require.Equal(t, "", step(detach{from(2), someone, words}), "the same again waits, too")
	require.Equal(t, "answer-3-refused", step(adopt{from(3), someone, AdoptRequest{words.Mesh, agent.Claim{Epoch: 2}}}),
		"it is being handed over")
	require.Equal(t, "", step(takeResult{words.Mesh, 2, errors.New("host a: silent"), true}))
	require.Equal(t, "host a: silent", s.st.detached.list()[0].Reason)
	require.Equal(t, "", step(takeResult{words.Mesh, 1, nil, false}), "of an epoch that is over")
	require.Equal(t, "answer-1 answer-2 mesh.detach", step(takeResult{words.Mesh, 2, nil, false}))
	require.Equal(t, "answer-4", step(detach{from(4), someone, words}))
	require.Equal(t, "answer-5-refused", step(detach{from(5), someone, s.giving("words-0000000000001", 4)}),
		"another claim on it")
	require.Equal(t, "answer-6-refused", step(detach{from(6), someone, s.giving("words-0000000000002", 1)}),
		"the name is taken")
	require.Equal(t, "answer-7-refused", step(adopt{from(7), someone, AdoptRequest{words.Mesh, agent.Claim{Epoch: 1}}}))
	require.Equal(t, "", step(detachedEnd{words.Mesh, 1, agent.Claim{}, "it has ended"}))
	require.Equal(t, "answer-7-refused", step(adopt{from(7), someone, AdoptRequest{words.Mesh, agent.Claim{Epoch: 2}}}),
		"the zero owner cannot adopt it")
	require.Equal(t, "save-2 answer-8", step(adopt{from(8), someone, AdoptRequest{words.Mesh, adopterAt(t, 2)}}))
	require.Equal(t, "forget let-go answer-9 mesh.adopt",
		step(confirm{from(9), AdoptRequest{words.Mesh, adopterAt(t, 3)}}))
	require.Empty(t, s.st.detached.byName)
	require.Equal(t, "save-4 take-4", step(detach{from(10), someone, s.giving("words-0000000000001", 3)}),
		"the name is free again")
	require.Equal(t, "forget answer-10-refused",
		step(takeResult{words.Mesh, 4, errors.New("it has ended"), false}))
	require.Empty(t, s.st.detached.byName)
}

func TestDetached_nextControllerUsesALaterEpoch_WORLD2(t *testing.T) {
	s := newScenario(t)
	s.st.self = s.proc("system/0.0")
	words := s.giving("words-0000000000001", 1)
	// the controller dies here, before or after its orders to hosts
	record := s.st.step(detach{from(1), someone, words}, s.now)[0].(saveRecord).record
	first := record.Detached.CurrentClaim
	for range 2 {
		next := newScenario(t)
		next.st.self = next.proc("other/0.0")
		out := next.st.step(restored{records: []Record{record}, directSuccessor: true}, next.now)
		record = out[0].(saveRecord).record
		require.Equal(t, fmt.Sprintf("save-%d take-%[1]d", record.Detached.CurrentClaim.Epoch), effectsOf(out))
		require.Empty(t, next.st.worlds)
	}
	require.EqualValues(t, 4, record.Detached.CurrentClaim.Epoch)
	require.Equal(t, record.Detached.CurrentClaim.Owner, s.proc("other/0.0").Actor(words.Mesh.String()))
	for _, c := range []agent.Claim{words.Claim, first, record.Detached.CurrentClaim} {
		require.True(t, record.Detached.isOwnClaim(c), "%+v: the hosts may know any of them", c)
	}
	other := agent.Claim{Epoch: 3, Owner: words.Claim.Owner}
	require.False(t, record.Detached.isOwnClaim(other), "another program has taken it over")
}

func TestDetached_nameIsUniqueAndItEndsWithTheSystem_WORLD16(t *testing.T) {
	s := newScenario(t)
	s.st.self = s.proc("system/0.0")
	words := s.giving("words-0000000000001", 1)
	s.st.step(detach{from(1), someone, words}, s.now)
	s.st.step(takeResult{words.Mesh, 2, nil, false}, s.now)
	host := s.host("b")
	out := s.st.step(join{from(2),
		JoinRequest{World: "words", Host: &HostJoin{ID: host, Incarnation: "l"}}}, s.now)
	require.Equal(t, &NameTakenError{"words", "mesh", words.Mesh.String()}, out[0].(answer).err)
	s.st.step(nameChecked{request: join{from(3),
		JoinRequest{World: "w", Host: &HostJoin{ID: host, Incarnation: "l"}}}}, s.now)
	out = s.st.step(detach{from(4), someone, s.giving("w-0000000000003", 1)}, s.now)
	require.Equal(t, &NameTakenError{"w", "world", "w-…"}, out[0].(answer).err)
	require.Equal(t, "let-go", effectsOf(
		s.st.step(detachedEnd{words.Mesh, 2, adopterAt(t, 3), "another has it"}, s.now)[1:]))
	s.st.step(detach{from(5), someone, words}, s.now)
	s.st.step(takeResult{words.Mesh, 2, nil, false}, s.now)
	require.Contains(t, effectsOf(s.st.step(stop{from(6), StopRequest{All: true, Reason: "good night"}}, s.now)),
		"forget stop")
	require.Equal(t, "answer-7-refused", effectsOf(s.st.step(detach{from(7), someone, words}, s.now)))
}

// adopterAt is the claim of a program, in an epoch.
func adopterAt(t *testing.T, epoch uint64) agent.Claim {
	t.Helper()
	owner, err := subjects.ParseActorID("client-000000000000e/0.0/adopter")
	require.NoError(t, err)
	return agent.Claim{Epoch: epoch, Owner: owner}
}

// An adopter dies before it has confirmed the mesh. So the mesh stays with the system, even if
// hosts know the adopter. A slow adopter is refused.
func TestDetached_isTakenBackFromAnUnconfirmedAdopter_WORLD16(t *testing.T) {
	s := newScenario(t)
	s.st.self = s.proc("system/0.0")
	words := s.giving("words-0000000000001", 1)
	words.Lease = 8 * time.Second
	step := func(e any) string { return effectsOf(s.st.step(e, s.now)) }
	step(detach{from(1), someone, words})
	step(takeResult{words.Mesh, 2, nil, false})
	require.Equal(t, "save-2 answer-2", step(adopt{from(2), someone, AdoptRequest{words.Mesh, adopterAt(t, 2)}}))
	require.Contains(t, s.st.detached.list()[0].Reason, "it is being adopted by client-")
	require.Equal(t, "answer-3-refused",
		step(adopt{from(3), someone, AdoptRequest{words.Mesh, agent.Claim{Epoch: 2, Owner: words.Claim.Owner}}}),
		"one at a time")
	require.Equal(t, "", step(detachedEnd{words.Mesh, 2, adopterAt(t, 3), "fenced"}),
		"a claim of the adopter is no end")
	due, ok := s.st.nextTick()
	require.True(t, ok)
	require.Equal(t, 4*time.Second, due.Sub(s.now), "half of its lease: the hosts have not ended it then")
	s.now = due.Add(-1)
	require.Equal(t, "", step(tick{}))
	s.now = due
	require.Equal(t, "mesh.adopt.lapse let-go save-4 take-4", step(tick{}))
	r := s.st.detached.byName["words"].DetachedRecord
	require.True(t, r.isOwnClaim(agent.Claim{Epoch: 3, Owner: adopterAt(t, 0).Owner.Proc.Actor("controller")}),
		"the hosts may know the adopter")
	require.Equal(t, "answer-4-refused",
		step(confirm{from(4), AdoptRequest{words.Mesh, adopterAt(t, 3)}}), "too late")
	step(takeResult{words.Mesh, 4, nil, false})
	require.Equal(t, "answer-5-refused", step(adopt{from(5), someone, AdoptRequest{words.Mesh, adopterAt(t, 2)}}))
	require.Equal(t, "save-4 answer-6", step(adopt{from(6), someone, AdoptRequest{words.Mesh, adopterAt(t, 4)}}))
	require.Equal(t, "forget let-go answer-7 mesh.adopt",
		step(confirm{from(7), AdoptRequest{words.Mesh, adopterAt(t, 5)}}))
	require.Equal(t, "answer-8", step(confirm{from(8), AdoptRequest{words.Mesh, adopterAt(t, 5)}}),
		"the answer was lost: it is asked again")
	_, ok = s.st.nextTick()
	require.False(t, ok)
}

// The controller dies during an adoption. The next one becomes the owner, and refuses the adopter's
// confirmation.
func TestDetached_nextControllerTakesItBack_WORLD2(t *testing.T) {
	s := newScenario(t)
	s.st.self = s.proc("system/0.0")
	words := s.giving("words-0000000000001", 1)
	s.st.step(detach{from(1), someone, words}, s.now)
	s.st.step(takeResult{words.Mesh, 2, nil, false}, s.now)
	record := s.st.step(adopt{from(2), someone, AdoptRequest{words.Mesh, adopterAt(t, 2)}}, s.now)[0].(saveRecord).record
	next := newScenario(t)
	next.st.self = next.proc("other/0.0")
	require.Equal(t, "save-4 take-4",
		effectsOf(next.st.step(restored{records: []Record{record}, directSuccessor: true}, next.now)))
	require.True(t, next.st.detached.byName["words"].isOwnClaim(adopterAt(t, 3)))
	require.Equal(t, "answer-3-refused",
		effectsOf(next.st.step(confirm{from(3), AdoptRequest{words.Mesh, adopterAt(t, 3)}}, next.now)))
}

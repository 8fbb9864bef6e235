package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

// after is a time after the start of a test.
func after(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }

// announced are the gateways in the heartbeats of live hosts.
func announced(ids ...string) map[string]bool {
	out := map[string]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// tables are the claim tables of gateways with knowledge of each other.
func tables(ids ...string) map[string]*claimTable {
	all := map[string]*claimTable{}
	for _, id := range ids {
		all[id] = newClaimTable(id)
		all[id].check(after(0), announced(ids...))
	}
	return all
}

var minute = claim{ID: 7, Timeout: time.Minute}

// checkUntil makes a check each claimInterval up to a time, and returns the last result.
func (t *claimTable) checkUntil(until time.Duration, live map[string]bool) map[string][]claim {
	for now := t.checkedAt.Add(claimInterval); now.Before(after(until)); now = now.Add(claimInterval) {
		if orphans := t.check(now, live); len(orphans) > 0 {
			return map[string][]claim{"too early": nil}
		}
	}
	return t.check(after(until), live)
}

func TestClaims_lowestGatewayAnswersForADeadOne_GW4(t *testing.T) {
	all := tables("a", "b", "c")
	for _, id := range []string{"a", "b"} {
		all[id].add("c", minute, after(0))
		require.Empty(t, all[id].checkUntil(claimInterval, announced("a", "b", "c")))
	}
	left := announced("a", "b")
	require.Empty(t, all["a"].checkUntil(claimInterval+absentGrace, left), "it may be reconnecting")
	orphans := all["a"].checkUntil(2*claimInterval+absentGrace, left)
	require.Len(t, orphans["c"], 1)
	require.EqualValues(t, 7, orphans["c"][0].ID)
	require.Empty(t, all["a"].checkUntil(time.Minute, left), "once")

	require.Empty(t, all["b"].checkUntil(2*claimInterval+absentGrace, left), "a answers for it first")
	require.Len(t, all["b"].checkUntil(2*claimInterval+absentGrace+takeoverStagger, left), 1, "unless a does not")
}

func TestClaims_gatewayThatDiesAtOnceAfterItsClaimIsReplacedAsSoon_GW4(t *testing.T) {
	a := tables("a", "c")["a"]
	a.add("c", minute, after(0))
	left := announced("a")
	require.Empty(t, a.checkUntil(absentGrace, left), "it may be reconnecting")
	require.Len(t, a.checkUntil(claimInterval+absentGrace, left), 1)
}

func TestClaims_doesNotRepeatAnothersAnswer(t *testing.T) {
	b := tables("a", "b", "c")["b"]
	b.add("c", minute, after(0))
	b.checkUntil(claimInterval, announced("a", "b", "c"))
	b.checkUntil(2*claimInterval+absentGrace, announced("a", "b"))
	b.remove("c", 7) // by a
	require.Empty(t, b.checkUntil(time.Minute, announced("a", "b")))
	require.Zero(t, b.size)
}

func TestClaims_doesNotAnswerForALiveGateway(t *testing.T) {
	a := tables("a", "c")["a"]
	a.add("c", minute, after(0))
	require.Empty(t, a.checkUntil(30*time.Second, announced("a", "c")))
	require.Empty(t, a.checkUntil(30*time.Second+absentGrace/2, announced("a")),
		"its connection is lost for a moment")
	require.Empty(t, a.checkUntil(31*time.Second, announced("a", "c")))
	require.Empty(t, a.checkUntil(31*time.Second+absentGrace, announced("a")))
	a.add("c", claim{ID: 8, Timeout: time.Minute}, after(31*time.Second+absentGrace))
	require.Empty(t, a.checkUntil(31*time.Second+2*absentGrace, announced("a")),
		"a claim shows that its sender lives")
}

// A gateway serves from shortly before its host's first heartbeat on.
func TestClaims_waitsForTheHostOfANewGateway_GW4(t *testing.T) {
	a := tables("a")["a"]
	a.add("c", minute, after(0))
	require.Empty(t, a.checkUntil(startGrace, announced("a")))
	require.Len(t, a.checkUntil(startGrace+2*claimInterval, announced("a")), 1, "its hostd died before it")
}

func TestClaims_pausedGatewayDeclaresNoDeaths(t *testing.T) {
	a := tables("a", "c")["a"]
	a.add("c", minute, after(0))
	a.checkUntil(claimInterval, announced("a", "c"))
	a.checkUntil(2*claimInterval, announced("a")) // and then its process is stopped, or its machine sleeps
	require.Empty(t, a.check(after(20*time.Second), announced("a")), "its later claims are not read yet")
	require.Empty(t, a.checkUntil(20*time.Second+claimInterval, announced("a", "c")))
}

func TestClaims_threeGatewaysKeepEachClaim_GW4(t *testing.T) {
	var ids []string
	for i := range 9 {
		ids = append(ids, fmt.Sprint(i))
	}
	for _, claimer := range ids {
		kept := 0
		for _, b := range tables(ids...) {
			if b.self != claimer {
				b.add(claimer, minute, after(0))
				kept += b.size
			}
		}
		require.Equal(t, claimReplicas, kept)
	}
}

func TestClaims_areBounded_GW6(t *testing.T) {
	a := tables("a", "c")["a"]
	for i := range maxClaims + 10 {
		a.add("c", claim{ID: uint64(i), Timeout: time.Second}, after(0))
	}
	require.Equal(t, maxClaims, a.size)
	require.Empty(t, a.checkUntil(6*time.Second+time.Millisecond, announced("a", "c")))
	require.Zero(t, a.size, "their deadline is long over")
	require.Empty(t, a.claimants)
}

func TestClaims_leavingGatewayHasAnsweredEverything(t *testing.T) {
	a := tables("a", "c")["a"]
	a.add("c", minute, after(0))
	a.removeAll("c")
	require.Zero(t, a.size)
	require.Empty(t, a.checkUntil(time.Minute, announced("a")))
}

// No message of a foreign client in the name of a gateway takes the table beyond its bounds.
func FuzzPeerMessage(f *testing.F) {
	id := testproc.HostID(f, "other")
	from := subjects.NewSender(subjects.Gateway.Principal(id.Label()), id.Proc().Process())
	for _, data := range [][]byte{
		[]byte(`{"claim":{"id":1,"reply":"r","from":"u-anon.a","format":"f","for":1000000000}}`),
		[]byte(`{"claim":{"id":2,"reply":"r","from":"u-anon.a","trace":"00-","format":"f","timeout":1000000000}}`),
		[]byte(`{"release":1,"of":"` + id.String() + `"}`), []byte(`{"leaves":true}`),
		[]byte(`{}`), []byte(`null`), {},
		[]byte(`{` + strings.Repeat(`"claim":null,"claim":{},`, 10_000) + `"release":1}`),
	} {
		f.Add(data)
	}
	p := &claims{g: &Gateway{}, self: "self", table: newClaimTable("self")}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data,
			func() { p.receive(bus.Msg{Subject: subjects.Space{}.Heartbeat(claimKind, from), Data: data}) })
		require.LessOrEqual(t, p.table.size, maxClaims)
		require.LessOrEqual(t, len(p.table.claimants), maxClaims)
	})
}

package gateway

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/subjects"
)

var start = time.Unix(1000, 0)

// after is a time after the start.
func after(d time.Duration) time.Time { return start.Add(10*time.Second + d) }

// books are gateways that have heard of each other.
func books(ids ...string) map[string]*peerTable {
	all := map[string]*peerTable{}
	for _, id := range ids {
		all[id] = newPeerTable(id)
		all[id].stableSince = start
	}
	for _, b := range all {
		for _, id := range ids {
			if id != b.self {
				b.noteHeartbeat(id, after(0))
			}
		}
	}
	return all
}

func TestPeerTable_lowestPeerAnswersForADeadOne(t *testing.T) {
	all := books("a", "b", "c")
	for _, id := range []string{"a", "b"} {
		b := all[id]
		b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
		ask, orphans := b.tick(after(250 * time.Millisecond))
		require.Equal(t, []string{"c"}, ask)
		require.Empty(t, orphans)
		ask, _ = b.tick(after(500 * time.Millisecond))
		require.Empty(t, ask, "one question at a time")
		b.noteProbeResult("c", probeNoResponder, after(500*time.Millisecond))
		_, orphans = b.tick(after(1250 * time.Millisecond))
		require.Empty(t, orphans, "it may be connecting anew")
		b.noteProbeResult("c", probeNoResponder, after(1400*time.Millisecond))
	}
	_, orphans := all["a"].tick(after(1500 * time.Millisecond))
	require.Len(t, orphans, 1)
	require.Equal(t, "c", orphans[0].gateway)
	require.EqualValues(t, 7, orphans[0].claims[0].ID)
	_, again := all["a"].tick(after(time.Minute))
	require.Empty(t, again, "once")

	_, orphans = all["b"].tick(after(1500 * time.Millisecond))
	require.Empty(t, orphans, "that is for a to do")
	_, orphans = all["b"].tick(after(2500 * time.Millisecond))
	require.Len(t, orphans, 1, "unless a does not")
}

func TestPeerTable_doesNotRepeatAnotherPeersAnswer(t *testing.T) {
	b := books("a", "b", "c")["b"]
	b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
	b.noteProbeResult("c", probeNoResponder, after(0))
	_, orphans := b.tick(after(time.Second))
	require.Empty(t, orphans)
	b.removeClaim("c", 7) // by a
	_, orphans = b.tick(after(5 * time.Second))
	require.Empty(t, orphans)
}

func TestPeerTable_newPeerIsNotAloneBeforeAFullView_GW4(t *testing.T) {
	b := newPeerTable("a")
	b.resetView(start)
	require.False(t, b.isAlone(start.Add(fullViewAfter)))
	require.True(t, b.isAlone(start.Add(fullViewAfter+1)))
	b.noteHeartbeat("b", start.Add(fullViewAfter+1))
	require.False(t, b.isAlone(start.Add(fullViewAfter+1)))
}

func TestPeerTable_threeSecondsOfSilenceMeanDeath(t *testing.T) {
	b := books("a", "c")["a"]
	b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
	_, orphans := b.tick(after(2900 * time.Millisecond))
	require.Empty(t, orphans)
	_, orphans = b.tick(after(3 * time.Second))
	require.Len(t, orphans, 1)
}

func TestPeerTable_doesNotAnswerForALivePeer(t *testing.T) {
	b := books("a", "c")["a"]
	b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
	for i := range 100 {
		now := after(time.Duration(i) * probeInterval)
		_, orphans := b.tick(now)
		require.Empty(t, orphans)
		b.noteProbeResult("c", probeAlive, now)
	}
	b.removeClaim("c", 7)
	ask, _ := b.tick(after(26 * time.Second))
	require.Empty(t, ask, "nothing of it is held any more")
}

func TestPeerTable_disconnectedPeerDeclaresNoDeaths(t *testing.T) {
	b := books("a", "c")["a"]
	b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
	b.noteProbeResult("c", probeNoResponder, after(0))
	b.resetView(after(2 * time.Second))
	_, orphans := b.tick(after(4 * time.Second))
	require.Empty(t, orphans)
	b.noteProbeResult("c", probeNotSent, after(4*time.Second))
	for at := 4 * time.Second; at < 7*time.Second; at += probeInterval {
		_, orphans = b.tick(after(at))
		require.Empty(t, orphans)
	}
	_, orphans = b.tick(after(7 * time.Second))
	require.Len(t, orphans, 1, "a silence that it was there to hear")
}

func TestPeerTable_suspendedPeerDeclaresNoDeaths(t *testing.T) {
	b := books("a", "c")["a"]
	b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
	b.tick(after(probeInterval)) // and then its process is stopped, or its machine sleeps
	_, orphans := b.tick(after(20 * time.Second))
	require.Empty(t, orphans, "what came meanwhile is not read yet")
	b.noteProbeResult("c", probeAlive, after(20*time.Second))
	_, orphans = b.tick(after(20*time.Second + probeInterval))
	require.Empty(t, orphans)
}

func TestPeerTable_threePeersStoreEachClaim(t *testing.T) {
	var ids []string
	for i := range 9 {
		ids = append(ids, fmt.Sprint(i))
	}
	for _, claimer := range ids {
		keep := 0
		for _, b := range books(ids...) {
			if b.self != claimer {
				b.addClaim(claimer, claim{ID: 1, Timeout: time.Minute}, after(0))
				keep += len(b.claims)
			}
		}
		require.Equal(t, claimReplicas, keep)
	}
}

func TestPeerTable_isBounded(t *testing.T) {
	b := books("a", "c")["a"]
	for i := range maxClaims + 10 {
		b.addClaim("c", claim{ID: uint64(i), Timeout: time.Second}, after(0))
	}
	require.Len(t, b.claims, maxClaims)
	b.noteProbeResult("c", probeAlive, after(6*time.Second))
	b.tick(after(6*time.Second + time.Millisecond))
	require.Empty(t, b.claims, "their deadline is long over")
	b.tick(after(time.Minute))
	require.Empty(t, b.peers, "who says nothing is forgotten")
}

func TestPeerTable_leavingPeerHasAnsweredEverything(t *testing.T) {
	b := books("a", "c")["a"]
	b.addClaim("c", claim{ID: 7, Timeout: time.Minute}, after(0))
	b.removePeer("c")
	_, orphans := b.tick(after(time.Minute))
	require.Empty(t, orphans)
}

// Whatever a stranger says as a gateway, the book is within its bounds.
func FuzzPeerMessage(f *testing.F) {
	id, err := subjects.NewHostID("other")
	require.NoError(f, err)
	from := id.Proc().Process().String()
	for _, data := range [][]byte{
		[]byte(`{"claim":{"id":1,"reply":"r","from":"a","format":"f","for":1000000000}}`), []byte(`{"release":1,"of":"` + from + `"}`), []byte(`{"leaves":true}`),
		[]byte(`{}`), []byte(`null`), {}, []byte(`{` + strings.Repeat(`"claim":null,"claim":{},`, 10_000) + `"release":1}`),
	} {
		f.Add(data)
	}
	p := &peers{g: &Gateway{}, self: "self", table: newPeerTable("self")}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { p.receive(bus.Msg{Subject: subjects.Space{}.Heartbeat(claimKind, from), Data: data}) })
		require.LessOrEqual(t, len(p.table.peers), maxPeers)
		require.LessOrEqual(t, len(p.table.claims), maxClaims)
	})
}

package link

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is the n-th process of a mesh.
func process(t testing.TB, n int) subjects.ProcessID {
	t.Helper()
	id, err := subjects.ParseProcessID("peers-0123456789abc_" + strconv.Itoa(n) + "-0")
	require.NoError(t, err)
	return id
}

// sent is a message on its way.
type sent struct {
	to      int
	n, prev uint64
}

// outbox publishes into a slice.
type outbox struct{ on []sent }

func (o *outbox) to(to int) func(n, prev uint64, open bool) error {
	return func(n, prev uint64, _ bool) error {
		o.on = append(o.on, sent{to, n, prev})
		return nil
	}
}

func TestLINK1_concurrentSendsReachTheBusInTheOrderOfTheirNumbers(t *testing.T) {
	s, a, b := NewSender(), process(t, 1), process(t, 2)
	var on []uint64 // guarded by the sender's own lock: that is the claim
	receiverA, receiverB := NewReceiver(), NewReceiver()
	deliver := func(r *Receiver, n, prev uint64) {
		v, reason, _ := r.Accept(process(t, 9), n, prev)
		require.Equal(t, Deliver, v, reason)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				require.NoError(t, s.Send(a, func(n, prev uint64, _ bool) error {
					on = append(on, n)
					deliver(receiverA, n, prev)
					return nil
				}))
				_, err := s.SendCast([]subjects.ProcessID{b, a}, func(n uint64, prevs []uint64) error {
					on = append(on, n)
					deliver(receiverB, n, prevs[0])
					deliver(receiverA, n, prevs[1])
					return nil
				})
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Len(t, on, 3200)
	for i, n := range on {
		require.EqualValues(t, i+1, n)
	}
}

func TestLINK2_whatWasNotPublishedLeavesNoGap(t *testing.T) {
	s, a, refused := NewSender(), process(t, 1), errors.New("no bus")
	var o outbox
	require.NoError(t, s.Send(a, o.to(1)))
	require.ErrorIs(t, s.Send(a, func(uint64, uint64, bool) error { return refused }), refused)
	_, err := s.SendCast([]subjects.ProcessID{a}, func(uint64, []uint64) error { return refused })
	require.ErrorIs(t, err, refused)
	require.NoError(t, s.Send(a, o.to(1)))
	require.Equal(t, []sent{{1, 1, 0}, {1, 2, 1}}, o.on)
}

func TestLINK3_eachVerdictIsWhatItSays(t *testing.T) {
	for _, c := range []struct {
		name    string
		seen    [][2]uint64
		n, prev uint64
		want    Verdict
	}{
		{"the first", nil, 1, 0, Deliver},
		{"the first on this link is a later number", nil, 7, 0, Deliver},
		{"the next", [][2]uint64{{1, 0}}, 5, 1, Deliver},
		{"the same again", [][2]uint64{{1, 0}, {5, 1}}, 5, 1, Duplicate},
		{"an old one", [][2]uint64{{1, 0}, {5, 1}}, 1, 0, Duplicate},
		{"a number in between, never sent here", [][2]uint64{{1, 0}, {5, 1}}, 3, 1, Duplicate},
		{"the second without the first", nil, 2, 1, Broken},
		{"a hole", [][2]uint64{{1, 0}}, 3, 2, Broken},
		{"a link that opens again", [][2]uint64{{1, 0}}, 2, 0, Broken},
		{"no number", nil, 0, 0, Broken},
		{"no number later", [][2]uint64{{1, 0}}, 0, 0, Broken},
		{"its own predecessor", nil, 3, 3, Broken},
		{"before its predecessor", [][2]uint64{{1, 0}}, 2, 9, Broken},
		{"what follows a hole", [][2]uint64{{1, 0}, {3, 2}}, 2, 1, Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, from := NewReceiver(), process(t, 1)
			for _, m := range c.seen {
				r.Accept(from, m[0], m[1])
			}
			v, reason, _ := r.Accept(from, c.n, c.prev)
			require.Equal(t, c.want, v)
			require.Equal(t, c.want == Broken, reason != "", reason)
			v, _, _ = r.Accept(process(t, 2), 1, 0)
			require.Equal(t, Deliver, v, "another link is not concerned")
		})
	}
}

func TestLINK3_aBreakIsToldAgainAndEverMoreRarely(t *testing.T) {
	r, from := NewReceiver(), process(t, 1)
	var told []uint64
	for n := range uint64(20) {
		v, reason, tell := r.Accept(from, 5+n, 4+n)
		require.Equal(t, Broken, v)
		require.Equal(t, "message 5 follows 4, but 0 was the last to arrive", reason)
		if tell {
			told = append(told, n+1)
		}
	}
	require.Equal(t, []uint64{1, 2, 4, 8, 16}, told)
	require.Equal(t, Stats{Refused: 20}, r.Stats())
}

func TestLINK4_aBrokenLinkCarriesNothing(t *testing.T) {
	s, a, b := NewSender(), process(t, 1), process(t, 2)
	var o outbox
	require.NoError(t, s.Send(a, o.to(1)))
	require.True(t, s.Break(a, "lost 1"))
	require.False(t, s.Break(a, "again"))
	err := s.Send(a, o.to(1))
	broken, ok := errors.AsType[*BrokenError](err)
	require.True(t, ok)
	require.Equal(t, &BrokenError{Peer: a, Reason: "lost 1"}, broken)
	require.EqualError(t, err, "link to "+a.String()+" is broken: lost 1")

	left, err := s.SendCast([]subjects.ProcessID{a, b}, func(_ uint64, prevs []uint64) error {
		require.Equal(t, []uint64{Left, 0}, prevs)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []*BrokenError{broken}, left)
	left, err = s.SendCast([]subjects.ProcessID{a}, func(uint64, []uint64) error {
		require.Fail(t, "a cast to nobody is not published")
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []*BrokenError{broken}, left)
	require.Len(t, o.on, 1)
	require.NoError(t, s.Send(b, o.to(2)))
	require.Equal(t, sent{2, 3, 2}, o.on[1])
}

func TestLINK4_aLinkMayBeBrokenBeforeItsFirstMessage(t *testing.T) {
	s, a := NewSender(), process(t, 1)
	require.True(t, s.Break(a, "it refuses us"))
	require.Error(t, s.Send(a, func(uint64, uint64, bool) error { return nil }))
}

func TestLINK5_theOneSilentLongestIsForgotten(t *testing.T) {
	r := newRecent[int](3)
	for n := range 3 {
		*r.use(process(t, n)) = n + 10
	}
	r.use(process(t, 0))
	*r.use(process(t, 3)) = 13
	require.Nil(t, r.get(process(t, 1)))
	for _, n := range []int{0, 2, 3} {
		require.Equal(t, n+10, *r.get(process(t, n)))
	}
	r.drop(process(t, 2))
	r.drop(process(t, 2))
	require.Zero(t, *r.use(process(t, 4)))
	require.NotNil(t, r.get(process(t, 0)), "there was room")
	require.Equal(t, len(r.items), r.order.Len())
}

func TestLINK5_whoWasForgottenBreaksItsLinkWhenItSpeaks(t *testing.T) {
	r, a, b := NewReceiver(), process(t, 1), process(t, 2)
	r.links = newRecent[incoming](1)
	r.Accept(a, 1, 0)
	r.Accept(b, 1, 0)
	v, _, tell := r.Accept(a, 2, 1)
	require.Equal(t, Broken, v)
	require.True(t, tell)
}

func TestSender_knowsWhoWasHeardFrom(t *testing.T) {
	s, a := NewSender(), process(t, 1)
	var opens []bool
	send := func() {
		require.NoError(t, s.Send(a, func(_, _ uint64, open bool) error { opens = append(opens, open); return nil }))
	}
	s.Heard(a) // of somebody nothing was sent to
	send()
	send()
	s.Heard(a)
	send()
	s.Forget(a)
	send()
	require.Equal(t, []bool{false, false, true, false}, opens)
}

func TestReceiver_forgetsADeadPeer(t *testing.T) {
	r, a := NewReceiver(), process(t, 1)
	r.Accept(a, 1, 0)
	r.Accept(a, 3, 2)
	r.Forget(a)
	r.Forget(a)
	v, _, _ := r.Accept(a, 9, 0)
	require.Equal(t, Deliver, v, "nothing is left of it")
}

// oracle is a receiver that knows everything that was sent on each link, in order.
type oracle struct {
	sent      map[int][]uint64
	delivered map[int]int
	broken    map[int]bool
}

// expect says what must become of a message, from the whole history.
func (o *oracle) expect(m sent) Verdict {
	seen := o.sent[m.to][:o.delivered[m.to]]
	switch next := o.delivered[m.to]; {
	case o.broken[m.to]:
		return Broken
	case len(seen) > 0 && m.n <= seen[len(seen)-1]:
		return Duplicate
	case o.sent[m.to][next] == m.n:
		o.delivered[m.to]++
		return Deliver
	}
	o.broken[m.to] = true
	return Broken
}

// drawMembers draws the members of a cast.
func drawMembers(t *testing.T, rt *rapid.T, links int) ([]int, []subjects.ProcessID) {
	members := rapid.SliceOfNDistinct(rapid.IntRange(0, links-1), 1, links, rapid.ID[int]).Draw(rt, "members")
	ids := make([]subjects.ProcessID, len(members))
	for i, m := range members {
		ids[i] = process(t, m)
	}
	return members, ids
}

func TestLINK3_whateverTheBusDoesEachLinkDeliversAPrefixInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const links = 3
		s := NewSender()
		o := &oracle{sent: map[int][]uint64{}, delivered: map[int]int{}, broken: map[int]bool{}}
		receivers := [links]*Receiver{}
		told := [links]int{}
		for i := range receivers {
			receivers[i] = NewReceiver()
		}
		var history []sent
		arrive := func(m sent) {
			want := o.expect(m)
			v, _, tell := receivers[m.to].Accept(process(t, 9), m.n, m.prev)
			require.Equal(rt, want, v, "%+v", m)
			if tell {
				told[m.to]++
			}
		}
		publish := func(m sent) {
			o.sent[m.to] = append(o.sent[m.to], m.n)
			history = append(history, m)
			if rapid.IntRange(0, 19).Draw(rt, "lost") > 0 {
				arrive(m)
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				to := rapid.IntRange(0, links-1).Draw(rt, "to")
				require.NoError(rt, s.Send(process(t, to), func(n, prev uint64, _ bool) error { publish(sent{to, n, prev}); return nil }))
			case 2:
				members, ids := drawMembers(t, rt, links)
				_, err := s.SendCast(ids, func(n uint64, prevs []uint64) error {
					for i, m := range members {
						publish(sent{m, n, prevs[i]})
					}
					return nil
				})
				require.NoError(rt, err)
			case 3:
				if len(history) > 0 {
					arrive(rapid.SampledFrom(history).Draw(rt, "again")) // a duplicate, or a lost one that comes late
				}
			}
		}
		for i := range links {
			require.Equal(rt, o.broken[i], told[i] > 0)
		}
	})
}

func TestLink_isSafeForConcurrentUse(t *testing.T) {
	s, r := NewSender(), NewReceiver()
	var delivered atomic.Int64
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			to := process(t, g)
			for i := range 300 {
				_ = s.Send(to, func(n, prev uint64, _ bool) error {
					if v, _, _ := r.Accept(to, n, prev); v == Deliver {
						delivered.Add(1)
					}
					return nil
				})
				s.Heard(to)
				if g == 0 && i == 200 {
					s.Break(to, "enough")
				}
				if g == 1 && i == 299 {
					s.Forget(to)
					r.Forget(to)
				}
				_ = r.Stats()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 5*300+201, delivered.Load())
}

func BenchmarkSendAccept(b *testing.B) {
	s, r, to := NewSender(), NewReceiver(), process(b, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(to, func(n, prev uint64, _ bool) error {
			r.Accept(to, n, prev)
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}

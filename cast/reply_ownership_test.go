package cast_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// A ledger answers with its own map, slice and pointer, and changes them later.
type ledger struct {
	counts map[string]int
	lines  []int
	page   *page
}

type page struct {
	Words map[string]int
	Next  *page
}

var (
	ledgerType = actor.NewType[*ledger, actor.None]("ledger")

	ownMap    = actor.NewEndpoint[*ledger, int, map[string]int]("map", cast.Merge[map[string]int](last))
	ownSlice  = actor.NewEndpoint[*ledger, int, []int]("slice")
	ownPage   = actor.NewEndpoint[*ledger, int, *page]("page", firstPage)
	ownAny    = actor.NewEndpoint[*ledger, int, any]("any")
	ownLater  = actor.NewEndpoint[*ledger, int, map[string]int]("later", cast.Merge[map[string]int](last))
	odds      = actor.NewEndpoint[*ledger, string, any]("odds", firstOdd)
	oddValue  = actor.NewEndpoint[*ledger, string, vain]("vain")
	oddError  = actor.NewEndpoint[*ledger, string, int]("error")
	firstPage = actor.NewReducer("first-page", func(a, _ *page) (*page, error) { return a, nil })
	firstOdd  = actor.NewReducer("first-odd", func(a, _ any) (any, error) { return a, nil })
)

func (l *ledger) write(n int) {
	key := fmt.Sprint("k", n%64)
	l.counts[key]++
	l.lines[n%len(l.lines)] = n
	l.page.Words[key]++
}

func (l *ledger) ownMap(_ *actor.Context, n int) (map[string]int, error) {
	l.write(n)
	return l.counts, nil
}

func (l *ledger) ownSlice(_ *actor.Context, n int) ([]int, error) {
	l.write(n)
	return l.lines, nil
}

func (l *ledger) ownPage(_ *actor.Context, n int) (*page, error) {
	l.write(n)
	return l.page, nil
}

func (l *ledger) ownAny(_ *actor.Context, n int) (any, error) {
	l.write(n)
	return l.counts, nil
}

func (l *ledger) ownLater(ctx *actor.Context, n int) (map[string]int, error) {
	d := actor.Defer[map[string]int](ctx)
	ctx.Go(func(context.Context) func(*actor.Context) {
		return func(*actor.Context) {
			l.write(n)
			d.Reply(l.counts, nil)
			l.write(n)
		}
	})
	return nil, nil
}

// vain is a type with the worst possible marshaler.
type vain struct{ How string }

func (v vain) MarshalCBOR() ([]byte, error) {
	switch v.How {
	case "panics":
		panic(v)
	case "refuses":
		return nil, errors.New("not for you")
	}
	return []byte{0xff}, nil
}

func (l *ledger) oddValue(_ *actor.Context, how string) (vain, error) { return vain{how}, nil }

// silent is an error without a text: its method reads through a nil pointer.
type silent struct{ text string }

func (s *silent) Error() string { return s.text }

func (l *ledger) oddError(_ *actor.Context, how string) (int, error) {
	var none *silent
	switch how {
	case "nil":
		return 0, none
	case "panic":
		cyclic := map[string]any{}
		cyclic["self"] = cyclic
		panic(cyclic)
	}
	return 0, &silent{how}
}

func (l *ledger) odds(_ *actor.Context, how string) (any, error) {
	switch how {
	case "map":
		m := map[string]any{}
		m["self"] = m
		return m, nil
	case "slice":
		s := []any{nil}
		s[0] = s
		return s, nil
	case "pointer":
		p := &page{}
		p.Next = p
		return p, nil
	case "interface":
		var v any
		v = &v
		return v, nil
	case "list":
		var p *page
		for range 2_000_000 {
			p = &page{Next: p}
		}
		return p, nil
	case "channel":
		return map[string]any{"c": make(chan int)}, nil
	case "function":
		return func() {}, nil
	case "nan":
		return map[float64]int{math.NaN(): 1, math.NaN(): 2}, nil
	}
	return "fine", nil
}

// books are the ledgers of a test.
type books struct{ members }

func (b books) Ref(rank int) actor.Ref[*ledger] {
	base, err := b.region.BaseRank(rank)
	if err != nil {
		return actor.ErrRef[*ledger](err)
	}
	return actor.RefOf[*ledger](b.place.Proc(base).Actor("members")).Via(b.via)
}

// ledgers is a mesh of two hosts with three ledgers each in one process.
func ledgers(t *testing.T) books {
	t.Helper()
	server := bustest.Server(t)
	def := ledgerType.Define(func(*actor.Context, actor.None) (*ledger, error) {
		return &ledger{counts: map[string]int{}, lines: make([]int, 64), page: &page{Words: map[string]int{}}}, nil
	}, ownMap.Handle((*ledger).ownMap), ownSlice.Handle((*ledger).ownSlice), ownPage.Handle((*ledger).ownPage),
		ownAny.Handle((*ledger).ownAny), ownLater.Handle((*ledger).ownLater), odds.Handle((*ledger).odds),
		oddValue.Handle((*ledger).oddValue), oddError.Handle((*ledger).oddError))
	start := func(id subjects.ProcID, m *cast.Member, first *actor.Proc) *actor.Proc {
		o := actor.Options{ID: id, Lead: first, Coordinator: func(actor.Event) {}}
		p, _ := testproc.Start(t, server, testproc.Options{Options: o, Member: m}, def)
		return p
	}
	extent := shape.Of("host", 2).With("gpu", 3)
	place := cast.Placement{Mesh: testproc.MeshID(t, "mesh"), Extent: extent, PerHost: 3, PerProcess: 3}
	client := start(subjects.ProcID{}, nil, nil)
	var first *actor.Proc
	for rank := range extent.NumRanks() {
		if rank%3 == 0 {
			first = nil
		}
		p := start(place.Proc(rank), &cast.Member{Placement: place, Rank: rank}, first)
		if first == nil {
			first = p
		}
		_, err := p.Spawn(t.Context(), actor.SpawnSpec{Type: "ledger", Name: "members", Params: actor.None{}})
		require.NoError(t, err)
	}
	return books{members{via: client, place: place, region: extent.Region()}}
}

func TestReply_belongsToTheCallerForEveryVerb_CAST12(t *testing.T) { // ACT-14
	to := ledgers(t)
	ctx := t.Context()
	slow := cast.Throttled(to, cast.Throttle{BatchSize: 4})
	merged := cast.Merge[map[string]int](last)
	for verb, ask := range map[string]func(n int) error{
		"Call": func(n int) error {
			_, err := ownMap.Call(ctx, to.Ref(n%6), n)
			return err
		},
		"Gather map":   func(n int) error { _, err := cast.Gather(ctx, to, ownMap, n); return err },
		"Gather slice": func(n int) error { _, err := cast.Gather(ctx, to, ownSlice, n); return err },
		"Gather page":  func(n int) error { _, err := cast.Gather(ctx, to, ownPage, n); return err },
		"Gather any":   func(n int) error { _, err := cast.Gather(ctx, to, ownAny, n); return err },
		"Gather later": func(n int) error { _, err := cast.Gather(ctx, to, ownLater, n); return err },
		"Reduce merge": func(n int) error { _, err := cast.Reduce(ctx, to, ownMap, n, merged); return err },
		"Reduce slice": func(n int) error {
			_,
				err := cast.Reduce(ctx, to, ownSlice, n, cast.Concat[[]int]())
			return err
		},
		"Reduce page":  func(n int) error { _, err := cast.Reduce(ctx, to, ownPage, n, firstPage); return err },
		"Reduce later": func(n int) error { _, err := cast.Reduce(ctx, to, ownLater, n, merged); return err },
		"Aggregate": func(n int) error {
			_, err := cast.Aggregate(ctx, to, ownMap, n, cast.Collect[map[string]int]())
			return err
		},
		"ReduceStream": func(n int) (err error) {
			for p := range cast.ReduceStream(ctx, to, ownMap, n, merged, time.Millisecond) {
				err = p.Err
			}
			return err
		},
		"Stream": func(n int) (err error) {
			for _, r := range cast.Stream(ctx, to, ownMap, n) {
				err = errors.Join(err, r.Err)
			}
			return err
		},
		"Stream later": func(n int) (err error) {
			for _, r := range cast.Stream(ctx, to, ownLater, n) {
				err = errors.Join(err, r.Err)
			}
			return err
		},
		"Choose":           func(n int) error { _, err := cast.Choose(ctx, to, ownMap, n); return err },
		"throttled Gather": func(n int) error { _, err := cast.Gather(ctx, slow, ownMap, n); return err },
		"throttled Reduce": func(n int) error { _, err := cast.Reduce(ctx, slow, ownMap, n, merged); return err },
		"throttled Aggregate": func(n int) error {
			_, err := cast.Aggregate(ctx, slow, ownMap, n, cast.Collect[map[string]int]())
			return err
		},
		"watched Gather": func(n int) error {
			_, err := cast.Gather(ctx, cast.WithProgress(to, time.Millisecond, func(int) {}), ownMap, n)
			return err
		},
	} {
		t.Run(verb, func(t *testing.T) {
			var wg sync.WaitGroup
			defer wg.Wait()
			for caller := range 4 {
				wg.Go(func() {
					for n := range 10 {
						if err := ask(10*caller + n); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		})
	}
}

func TestReply_noReturnedValueCrashesTheProcess_CAST12(t *testing.T) {
	to := ledgers(t)
	ctx := t.Context()
	for how, want := range map[string]string{
		"map": "deeper or cyclic", "slice": "deeper or cyclic", "pointer": "deeper or cyclic",
		"interface": "deeper or cyclic",
		"channel":   "unsupported type: chan int", "function": "unsupported type: func()",
	} {
		t.Run(how, func(t *testing.T) {
			_, err := odds.Call(ctx, to.Ref(0), how)
			require.ErrorContains(t, err, want, "Call")
			_, err = cast.Gather(ctx, to, odds, how)
			require.ErrorContains(t, err, "failed 6 [*]", "Gather")
			require.ErrorContains(t, err, want, "Gather")
			_, err = cast.Reduce(ctx, to, odds, how, firstOdd)
			require.ErrorContains(t, err, want, "Reduce")
			_, err = cast.Aggregate(ctx, to, odds, how, cast.CountBy[any]())
			require.ErrorContains(t, err, want, "Aggregate")
			for _, r := range cast.Stream(ctx, to, odds, how) {
				require.ErrorContains(t, r.Err, want, "Stream")
			}
			for p := range cast.ReduceStream(ctx, to, odds, how, firstOdd, time.Millisecond) {
				err = p.Err
			}
			require.ErrorContains(t, err, want, "ReduceStream")
		})
	}
	for how, want := range map[string]string{"list": "deeper or cyclic", "nan": "the answer"} {
		_, err := odds.Call(ctx, to.Ref(0), how)
		require.ErrorContains(t, err, want)
	}
	for how, want := range map[string]string{
		"panics": "its marshaler panicked", "refuses": "not for you", "garbage": "MarshalCBOR",
	} {
		_, err := cast.Gather(ctx, to, oddValue, how)
		require.ErrorContains(t, err, want)
	}
	_, err := cast.Gather(ctx, to, oddError, "because")
	require.ErrorContains(t, err, "because")
	got, err := cast.Gather(ctx, to, odds, "fine")
	require.NoError(t, err, "they all live")
	require.Equal(t, 6, got.Len())
	for how, want := range map[string]string{"nil": "nil pointer dereference",
		"panic": "panicked: a value of type map[string]interface {}"} {
		_, err = oddError.Call(ctx, ledgers(t).Ref(0), how)
		require.ErrorIs(t, err, actor.ErrPanic)
		require.ErrorContains(t, err, want)
		_, err = cast.Gather(ctx, ledgers(t), oddError, how)
		require.ErrorContains(t, err, want)
	}
}

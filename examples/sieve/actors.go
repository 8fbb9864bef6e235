package main

import "github.com/castnet-io/castnet/actor"

// What a station and a filter can be asked.
var (
	station = actor.NewType[*Station, actor.None]("station")
	open    = actor.NewEndpoint[*Station, Opening, actor.Ref[*Filter]]("open")
	opened  = actor.NewEndpoint[*Station, actor.None, int]("opened")

	filter = actor.NewType[*Filter, Opening]("filter")
	sift   = actor.NewEndpoint[*Filter, Batch, actor.None]("sift")
)

func definitions() []actor.Def {
	return []actor.Def{
		station.Made(newStation, open.By((*Station).open), opened.By((*Station).count)),
		filter.Made(newFilter, sift.By((*Filter).sift)),
	}
}

// Opening is what a new filter has to know.
type Opening struct {
	Place    int                    // in the chain
	Below    int                    // the limit
	Stations []actor.Ref[*Station]  // where filters can be, in turn
	Found    actor.PortRef[Finding] // who wants the primes
}

// Batch is numbers in growing order.
type Batch struct {
	Numbers []int
	Last    bool
}

// Finding is primes, from one of the filters.
type Finding struct {
	Own     int   // the prime of the filter, when it has just got it; else 0
	Rest    []int // what has come through the last filter
	Filters int   // how many there are, in the last finding of the last one; else 0
}

// Station is a place for filters.
type Station struct{ opened int }

func newStation(*actor.Context, actor.None) (*Station, error) { return &Station{}, nil }

func (s *Station) open(ctx *actor.Context, o Opening) (actor.Ref[*Filter], error) {
	s.opened++
	return actor.SpawnChild(ctx, filter, "filter", o)
}

func (s *Station) count(*actor.Context, actor.None) (int, error) { return s.opened, nil }

// Filter takes the multiples of its prime out.
type Filter struct {
	Opening
	prime int // 0 until the first number has come
	next  actor.Ref[*Filter]
	more  bool // there is a next one
}

func newFilter(_ *actor.Context, o Opening) (*Filter, error) { return &Filter{Opening: o}, nil }

// sift hands on what may be prime; the last filter says what is.
func (f *Filter) sift(ctx *actor.Context, b Batch) (actor.None, error) {
	if f.prime == 0 { // whatever no smaller prime divides is a prime
		f.prime, b.Numbers = b.Numbers[0], b.Numbers[1:]
		if err := f.Found.Send(ctx, Finding{Own: f.prime}); err != nil {
			return actor.None{}, err
		}
	}
	if f.prime*f.prime > f.Below {
		return actor.None{}, f.Found.Send(ctx, f.finding(b))
	}
	rest := b.Numbers[:0]
	for _, n := range b.Numbers {
		if n%f.prime != 0 {
			rest = append(rest, n)
		}
	}
	if !f.more { // of the first batch a prime is left, for there is one between any number and its double
		o := f.Opening
		o.Place++
		next, err := open.Call(ctx, f.Stations[o.Place%len(f.Stations)], o)
		if err != nil {
			return actor.None{}, err
		}
		f.next, f.more = next, true
	}
	return actor.None{}, sift.Post(ctx, f.next, Batch{rest, b.Last})
}

// finding is what the last filter says of a batch.
func (f *Filter) finding(b Batch) Finding {
	if b.Last {
		return Finding{Rest: b.Numbers, Filters: f.Place + 1}
	}
	return Finding{Rest: b.Numbers}
}

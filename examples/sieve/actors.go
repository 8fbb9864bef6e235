package main

import "github.com/castnet-io/castnet/actor"

// Types and endpoints of stations and filters.
var (
	station = actor.NewType[*Station, actor.None]("station")
	open    = actor.NewEndpoint[*Station, Opening, actor.Ref[*Filter]]("open")
	opened  = actor.NewEndpoint[*Station, actor.None, int]("opened")

	filter = actor.NewType[*Filter, Opening]("filter")
	sift   = actor.NewEndpoint[*Filter, Batch, actor.None]("sift")
)

func definitions() []actor.Def {
	return []actor.Def{
		station.Define(newStation, open.Handle((*Station).open), opened.Handle((*Station).count)),
		filter.Define(newFilter, sift.Handle((*Filter).sift)),
	}
}

// Opening configures a new filter.
type Opening struct {
	Place    int                    // position in the chain
	Below    int                    // the limit
	Stations []actor.Ref[*Station]  // places for filters, in rotation
	Found    actor.PortRef[Finding] // receives the primes
}

// Batch is an ascending list of numbers.
type Batch struct {
	Numbers []int
	Last    bool
}

// Finding is a list of primes from one filter.
type Finding struct {
	Own     int   // the filter's own new prime; else 0
	Rest    []int // primes after the last filter
	Filters int   // number of filters, in the last finding; else 0
}

// Station makes filters in its process.
type Station struct{ opened int }

func newStation(*actor.Context, actor.None) (*Station, error) { return &Station{}, nil }

func (s *Station) open(ctx *actor.Context, o Opening) (actor.Ref[*Filter], error) {
	s.opened++
	return actor.SpawnChild(ctx, filter, "filter", o)
}

func (s *Station) count(*actor.Context, actor.None) (int, error) { return s.opened, nil }

// Filter removes the multiples of its prime.
type Filter struct {
	Opening
	prime int // 0 before the first number
	next  actor.Ref[*Filter]
	more  bool // a next filter exists
}

func newFilter(_ *actor.Context, o Opening) (*Filter, error) { return &Filter{Opening: o}, nil }

// sift forwards the possible primes. The last filter reports them as primes.
func (f *Filter) sift(ctx *actor.Context, b Batch) (actor.None, error) {
	if f.prime == 0 { // a number without a smaller prime factor is prime
		f.prime = b.Numbers[0]
		b.Numbers = b.Numbers[1:]
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
	if !f.more { // the first batch leaves a prime: there is one between any number and its double
		o := f.Opening
		o.Place++
		next, err := open.Call(ctx, f.Stations[o.Place%len(f.Stations)], o)
		if err != nil {
			return actor.None{}, err
		}
		f.next, f.more = next, true
	}
	return actor.None{}, sift.Send(ctx, f.next, Batch{rest, b.Last})
}

// finding is the last filter's report of a batch.
func (f *Filter) finding(b Batch) Finding {
	if b.Last {
		return Finding{Rest: b.Numbers, Filters: f.Place + 1}
	}
	return Finding{Rest: b.Numbers}
}

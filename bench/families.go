package main

import (
	"context"
	"slices"

	"github.com/castnet-io/castnet/bench/local"
)

// family is rows that come out of one measurement.
type family struct {
	rows  []row
	setup setup
}

// setup makes a contest on ground that is empty.
type setup func(context.Context, *ground) (contest, error)

// row is one line of the report, before it has numbers.
type row struct {
	name, unit string
	more       bool // more is better
}

// contest is a family ready to be measured: ours and the baselines. The ground owns the processes
// that it started.
type contest []contender

// contender is one of a contest. The first is ours.
type contender struct {
	name string
	do   side
}

// side does one repeat and returns a value for each row of its family.
type side func(context.Context) ([]float64, error)

// oursName is how notes call the first of a contest.
const oursName = "ours"

// against is a contest of two.
func against(base string, ours, theirs side) contest {
	return contest{{oursName, ours}, {base, theirs}}
}

// families is everything that can be measured, in the order of the report.
func families() []family {
	const us, ms = "us", "ms"
	all := []family{
		{[]row{{"call-latency", us, false}, {"call-latency-p99", us, false}}, onRig(callContest)},
		{[]row{{"cast-gather-8-hostd", us, false}}, onRig(gatherContest)},
		{[]row{{"cast-reduce-8-hostd", us, false}}, onRig(reduceContest)},
		{[]row{{"spawn-8", ms, false}}, onRig(spawnContest)},
	}
	all = append(all, procFamilies()...)
	all = append(all, controlFamilies()...)
	all = append(all, presenceFamilies()...)
	all = append(all, deathFamilies()...)
	all = append(all, controllerFamilies()...)
	all = append(all, meshFamilies()...)
	all = append(all, worldFamilies()...)
	all = append(all, castFamilies()...)
	all = append(all, gatewayFamilies()...)
	all = append(all, remoteFamilies()...)
	all = append(all, permissionFamilies()...)
	for _, w := range local.Workloads() {
		all = append(all, family{[]row{{w.Name, w.Unit, w.More}}, peersContest(w)})
	}
	for _, w := range local.Workloads() {
		if hasFloor(w) {
			all = append(all, family{[]row{{w.Name + floorSuffix, w.Unit, w.More}}, floorContest(w)})
		}
	}
	return all
}

func (f family) names() []string {
	var names []string
	for _, r := range f.rows {
		names = append(names, r.name)
	}
	return names
}

func rowNames() []string {
	var names []string
	for _, f := range families() {
		names = slices.Concat(names, f.names())
	}
	return names
}

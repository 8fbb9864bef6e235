package main

import "context"

// family is rows that come out of one measurement.
type family struct {
	rows  []row
	setup func(context.Context, *rig, settings) (contest, error)
}

// row is one line of the report, before it has numbers.
type row struct{ name, base, unit string }

// side does one repeat and returns a value for each row of its family.
type side func(context.Context) ([]float64, error)

// contest is a family ready to be measured. What it started belongs to the rig.
type contest struct{ ours, base side }

// families is everything that can be measured, in the order of the report.
func families() []family {
	const us, ms = "us", "ms"
	return []family{
		{[]row{{"call-latency", "nats-request", us}, {"call-latency-p99", "nats-request", us}}, callContest},
		{[]row{{"cast-gather-8", "nats-publish-8-replies", us}}, gatherContest},
		{[]row{{"cast-reduce-8", "nats-publish-8-replies", us}}, reduceContest},
		{[]row{{"spawn-8", "exec-connect-publish", ms}}, spawnContest},
	}
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
		names = append(names, f.names()...)
	}
	return names
}

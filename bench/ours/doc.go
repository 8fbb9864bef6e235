// Package ours is castnet's actor runtime as the workloads of bench/local see it: actors in one
// proc, on a server inside the process that does not listen.
//
//	value, err := local.Run(ctx, workload, n, ours.New)
//
// It uses what every program can: [actor.Spawn] with [actor.NoWait], [actor.Endpoint.PostWait] and
// [actor.Endpoint.Call], with the default mailbox. That one has a bound, which the peers' do not: a
// sender that finds it full waits for room, and the time this takes counts.
//
// # Failure
//
// Any other error of a verb is the fault of the workload that is under way.
package ours

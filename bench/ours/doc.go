// Package ours is castnet's actor runtime as the workloads of bench/local see it: actors in one
// proc, on a server inside the process that does not listen.
//
//	value, err := local.Run(ctx, workload, n, ours.New)
//
// And it is castnet as the workloads of bench/remote see it: a proc in each of two processes, and
// one actor that the other proc knows by its ID. Peers is the same with several procs on one side.
//
//	err := remote.Play(args, os.Stdin, os.Stdout, ours.Remote(server.Options{URL: url, Token: token}))
//
// It uses what every program can: [actor.Spawn] with [actor.NoWait], [actor.Endpoint.SendWait] and
// [actor.Endpoint.Call], with the default mailbox. That one has a bound, which the peers' do not: a
// sender that finds it full waits for room, and the time this takes counts. A burst to another
// process ends with [actor.Proc.Flush].
//
// # Failure
//
// Any other error of a verb is the fault of the local workload that is under way, or is returned.
package ours

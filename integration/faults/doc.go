// Package faults tests whole systems under faults: real processes, a real NATS server, and a
// faulty proxy between each process and the server. It contains tests only. Package chaos has the
// proxy. Package history has the records of the processes, and the checker of these records.
//
//	go test -C integration/faults ./...                           a sample, about 100 s
//	make faults                                                   all of it, some hours
//	FAULTS_RUNS=50 go test -C integration/faults -run F14         50 runs of one fault
//	FAULTS_RUNS=1 FAULTS_SEED=17 go test -C integration/faults -run F14    one run again; with
//	    -artifacts -outputdir DIR the histories and the output of all processes stay there
//
// Each run has a server, workers and their proxies. A worker is this test binary again, with a
// proc, actors that send and actors that record. All random choices of a run come from its seed,
// which is in the name of its subtest. The kernel and the scheduler are not under its control.
// After all runs of a fault, one line sums up the results and the number of runs. The faults have
// the numbers of the project's fault matrix. Tests that mostly wait run in parallel. Tests that
// measure speed, memory or delay run alone.
//
// # Conditions
//
// The tests check these promises under faults. Of every run, whatever its fault:
//
//   - No message is lost, handled twice, or handled after a later one of its stream (DEL-1, DEL-3,
//     DEL-3).
//   - No message reported as Undeliverable is handled (DEL-2).
//   - No actor handles a message for another incarnation (DEL-5).
//   - Every message of a live sender has a fate in bounded time: Proc.Flush returns (DEL-1). A
//     message with a deadline has it soon after that.
//   - Only processes that the test ends end, and they exit with 0. None outlives its test.
//
// Of faults that kill no process, and keep none away for longer than the others:
//
//   - Only messages whose deadline passes before the fault ends are Indeterminate. In F14 with
//     deadlines each has some milliseconds, in F17 those of every third run have 100.
//
// Of casts:
//
//   - Each live rank handles each cast once, in order with its sender's direct messages. The
//     coverage has every asked rank, and a fold exactly the answered ones. Only silent ranks and
//     those they fold for are missing (CAST-1 to CAST-6).
//
// Of pressure:
//
//   - The server disconnects no slow reader, a sender's memory has a bound, and calls to others
//     are answered (DEL-6).
//
// Of hostile bytes at a hostd (S5):
//
//   - Its memory is bounded, its connections stay, and it answers others.
//
// Tests of package history plant errors that the checker must find.
// TestControl_cutLosesMessagesOfPlainNATSOnly sends without castnet's links, and shows that the
// faults have an effect.
//
// Of hosts whose hostd is killed, starved, or has misbehaving procs (F2 to F5, F23, F26, F27, F29):
//
//   - At most one process of a rank and generation lives, and none after its host was stopped
//     (HOST-3, HOST-5, HOST-6, HOST-10).
//
// Of hosts as others see them (F3, F9 to F11, F15):
//
//   - A watched host becomes dead when it is killed, stopped or cut off for the full time. It does
//     not when it or the watcher is starved, or the server is away (package presence).
//
// Of worlds (F7, F11):
//
//   - Whatever happens to the system controller or the server, no proc of a world ends or starts
//     twice, no declaration is forgotten, and one controller answers (WORLD-2, WORLD-13).
//
// Of meshes under controllers (F1, F6 to F10, F15, F30):
//
//   - The owner learns of each end once, with its cause. A stopped or starved process ends no
//     other. Only a killed owner's meshes end with its lease. Casts and calls wait for no dead
//     proc (CTL-3, CTL-4, CTL-8).
//
// # Limits
//
// A proxy cannot lose single packets on TCP. Tests of messages have no host agents: when a process
// is killed, the test itself notifies the others, or none is notified. Zero defects in n messages
// is an upper bound of 3/n, at 95 %.
//
// The tests read /proc and stop processes, so they are for Linux.
package faults

// Command wordcount counts the words of a folder of files on all hosts of a castnet, shows the
// counts, and then shows what happens when a process dies: it kills one with SIGKILL and says how
// and after how long it heard of that, and that the others still answer.
//
//	wordcount [flags] [folder]
//
// The folder is the Go sources of this machine unless one is given. Every host reads it from its own
// disk, so it must be there on all of them.
//
// # Two ways to run it
//
// By itself, with a NATS server inside this process and two hostd processes:
//
//	make demo                                     # or:
//	make build
//	bin/wordcount --hostd bin/hostd
//
// On hosts that are there. Where NATS_URL (NATS_TOKEN …) says, or on the hostd of this machine:
//
//	bin/hostd &                                   # with a server of its own
//	bin/wordcount
//
//	nats-server --auth secret &                   # or with a server of yours
//	export NATS_URL=nats://127.0.0.1:4222 NATS_TOKEN=secret
//	bin/hostd --nats $NATS_URL --label a --allow $PWD/bin/wordcount &
//	bin/hostd --nats $NATS_URL --label b --allow $PWD/bin/wordcount &
//	bin/wordcount --hosts 2
//
// docker-compose.yml does the last with three hosts.
//
// # How it is built
//
// The program is its own worker: a host starts the same executable, whose main calls proc.Main
// first. What an actor does and how the counts are folded is in package counting; here is the
// cluster (cluster.go), the story that is told (story.go) and how it looks (report.go, progress.go).
//
// # Contract
//
//   - DEMO-1: whatever happens, the way out stops what was started: procs, hostds, server. When
//     this process is killed, its hostds get SIGTERM from the kernel (Linux) and take their procs
//     with them. The kernel may say it twice, which a hostd takes for haste: then its folder for the
//     output of procs stays behind.
//   - DEMO-2: a folder that is not there, a hostd that does not start or too few hosts are one
//     line on stderr and an exit code: 0 done, 1 failed, 2 bad command line, 130 interrupted.
//   - DEMO-3: results go to stdout; progress and errors go to stderr, progress as a bar when that
//     is a terminal.
package main

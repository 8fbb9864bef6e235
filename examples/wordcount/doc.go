// Command wordcount counts the words of a folder on all hosts of a castnet. Then it kills one
// process with SIGKILL and shows the report of the death, its delay, and that the others still
// answer.
//
//	wordcount [flags] [folder]
//
// The default folder is the Go source tree of this machine. Every host reads the folder from its
// own disk, so all hosts need it.
//
// # Two ways to run it
//
// By itself, with a NATS server inside this process and two hostd processes:
//
//	make demo                                     # or:
//	make build
//	bin/wordcount --hostd bin/hostd
//
// On running hosts, at NATS_URL (NATS_TOKEN …) or on the hostd of this machine:
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
// # Structure
//
// The program is its own worker: a host starts the same executable, whose main calls proc.Main
// first. Package counting holds the actor and the fold of the counts. This package holds the
// cluster (cluster.go), the sequence of steps (story.go) and the output (report.go, progress.go).
//
// # Contract
//
//   - DEMO-1 (end of the program): On every exit the program stops its procs, hostds and server.
//     An error is one line on stderr and an exit code. Results go to stdout, progress and errors
//     to stderr.
//
// # Details
//
// Exit codes are 0 done, 1 failed, 2 bad command line, 130 interrupted. Errors are a missing
// folder, a failed hostd or too few hosts. On a terminal progress is a bar. If the program is
// killed, the Linux kernel sends its hostds SIGTERM. A second SIGTERM can leave a hostd's output
// folder behind.
package main

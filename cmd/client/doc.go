// Command client starts meshes, shows what runs in them, and casts work to them, from a terminal
// or a script.
//
//	client up demo --per-host gpu=4             start a mesh on every host and hold it
//	client spawn NAME [--detach]                start a mesh on some hosts, and leave it running
//	client adopt MESH                           take a detached mesh back, and hold it
//	client meshes                               all meshes and worlds, and who owns them
//	client hosts [--label KEY=VALUE]            the hosts on the bus
//	client hosts cordon|uncordon|drain|shutdown HOST…   close, empty and end them
//	client hosts restart HOST…                  start their procs anew, one after another
//	client procs [MESH[region]]                 the ranks of meshes
//	client actors MESH[region]                  what runs in each rank
//	client call MESH[region] ACTOR ENDPOINT [JSON]   ask exactly one rank
//	client cast MESH[region] ACTOR ENDPOINT [JSON]   ask all ranks of a region at once
//	client logs MESH[region] [-f]               what the procs print
//	client mesh show MESH                       what a mesh is and how it is
//	client mesh restart MESH[region]            start its procs anew, one after another
//	client explain MESH                         why it is not running
//	client events [-f]                          what has failed, and what happens
//	client top                                  who handles messages, and where they wait
//	client stop MESH                            end a mesh
//	client doctor                               what is wrong with bus, permissions and hosts
//	client env                                  the variables that reach the bus, for a shell
//	client exec [MESH[region]] -- COMMAND       run a command on hosts, where their operators allow it
//	client config show [PROC]                   limits, and where their values are from
//	client worlds [NAME…]                       meshes that outlive their makers
//	client plan|apply -f FILE                   what declaring worlds would change; declare them
//	client delete NAME…                         stop worlds, and forget them
//	client where MESH/RANK                      the host and the incarnation of a rank
//
// It is a remote control: it finds meshes by asking the hosts, and holds no state. Only up and spawn own
// what they make, and adopt what it takes: the mesh ends with them, unless it is detached.
//
// # Contract
//
//   - CLI-C1: results go to stdout, everything else to stderr. `--output json` and `ndjson` are for
//     scripts: their names are stable, and nothing but documents is on stdout.
//   - CLI-C2: what is wrong with the command line (arguments, targets, regions of unknown syntax,
//     JSON) is said before anything is sent. The exit codes are those of package internal/cli.
//   - CLI-C3: a cast says what became of every rank that was asked; when one gave no value, the
//     exit code is 4 and the reasons are listed, each once with the region it is true of. A cast that
//     its throttle has stopped says who was not asked, and why.
//   - CLI-C4: colours, tables and progress are for terminals, and colours for those without
//     NO_COLOR. Progress is on stderr and leaves nothing behind.
//   - CLI-C5: Ctrl-C ends every command; up, `logs -f`, `events -f` and top on a terminal, which it is meant to end, then
//     exit with 0. `logs -f` also ends when the last rank has, and says how they did. Whatever up started is
//     stopped before it exits: the mesh first, then the hostd, if it started one.
//   - CLI-C6: secrets are never printed, but by env, which is there for them. The lines that up shows take them from env.
//   - CLI-C7: mesh show and explain answer within a few seconds whoever is silent, and say who: the word of the owner
//     goes before that of hosts. explain is a pure function of what mesh show shows.
//   - CLI-C8: doctor ends within --timeout and says something of every check it makes. It joins nothing until it has seen
//     what is allowed, and what it sends there nobody hears. Exit code 1 when a check has failed.
//
// # Layout
//
// One file per command, cmd_*.go, each a cobra command and its core; cast also has castspec.go (its
// flags), pace.go (the times of batches), fold.go, post.go, dryrun.go and natscmd.go (a way to cast each), and
// replies.go and coverage.go (what came home); logs has follower.go, seam.go and watchends.go (what comes), merge.go and
// logview.go (what is shown); mesh show and explain have meshview.go (what is known) and explanation.go
// (what follows), doctor has cmd_doctor_bus.go and cmd_doctor_hosts.go (what is checked), exec has cmd_exec_fold.go
// (what came of it), top has toplook.go, events has eventview.go; worlds.go has those for worlds, worldfile.go
// reads what they declare, and bareworld.go has what there is to say of one without procs. What commands share: app.go (the command line,
// connecting), flags.go, target.go and question.go (whom to ask), value.go (JSON to messages and
// back), output.go and progress.go (how it looks), complete.go (names from the live bus). A command runs on one goroutine; others belong to the function that starts and awaits them.
package main

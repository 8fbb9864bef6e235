// Command castnet starts meshes, shows their state, and casts work to them, from a terminal or a
// script.
//
//	castnet up demo --per-host gpu=4             start a mesh on every host and hold it
//	castnet spawn NAME [--detach]                start a mesh on some hosts, and leave it running
//	castnet adopt MESH                           take a detached mesh back, and hold it
//	castnet meshes                               all meshes and worlds, and who owns them
//	castnet hosts [--label KEY=VALUE]            the hosts on the bus
//	castnet hosts cordon|uncordon|drain|shutdown HOST…   close, empty and end them
//	castnet hosts restart HOST…                  restart their procs, one after another
//	castnet procs [MESH[region]]                 the ranks of meshes
//	castnet actors MESH[region]                  what runs in each rank
//	castnet types MESH                           the actor types of a mesh, and their endpoints
//	castnet call MESH[region] ACTOR ENDPOINT [JSON]   ask exactly one rank
//	castnet cast MESH[region] ACTOR ENDPOINT [JSON]   ask all ranks of a region at once
//	castnet logs MESH[region] [-f]               what the procs print
//	castnet mesh show MESH                       what a mesh is and how it is
//	castnet mesh restart MESH[region]            restart its procs, one after another
//	castnet wait MESH [--for CONDITION]          until it runs, is live or has ended
//	castnet grow MESH N                          start its procs on more hosts
//	castnet shrink MESH N                        stop them on its last hosts
//	castnet explain MESH                         why it is not running
//	castnet events [-f]                          past failures and new events
//	castnet top                                  a live screen of hosts, ranks and actors
//	castnet mcp [--act]                          these commands as tools of an AI agent
//	castnet stop MESH                            end a mesh
//	castnet doctor                               what is wrong with bus, permissions and hosts
//	castnet version                              the version of this command
//	castnet env                                  the variables that reach the bus, for a shell
//	castnet exec [MESH[region]] -- COMMAND       run a command on hosts, where their operators allow it
//	castnet config show [PROC]                   limits, and where their values are from
//	castnet worlds [NAME…]                       meshes that outlive their makers
//	castnet plan|apply -f FILE                   what declaring worlds would change; declare them
//	castnet delete NAME…                         stop worlds, and forget them
//	castnet where MESH/RANK                      the host and the incarnation of a rank
//
// It is a remote control: it finds meshes through the hosts and holds no state. Only up, spawn and
// adopt own a mesh, which ends with the command unless it is detached.
//
// # Contract
//
//   - CLI-C1 (output): Results go to stdout, everything else to stderr. `--output json` and
//     `ndjson` have stable names, and stdout then holds documents only.
//   - CLI-C2 (usage errors): Errors in the command line (arguments, targets, region syntax, JSON)
//     are reported before anything is sent. Exit codes are those of package internal/cli.
//   - CLI-C3 (coverage): A cast reports the result of every addressed rank. If one gave no value,
//     the exit code is 4 and each reason is listed once with its region. A stopped throttled cast
//     lists the skipped ranks with the reason.
//   - CLI-C4 (terminals): Colours, rules and progress appear on terminals only, colours not with
//     NO_COLOR. Tables and texts fit the width of the terminal. Progress uses stderr and is cleared
//     at the end.
//   - CLI-C5 (Ctrl-C): Ctrl-C ends every command, with 0 for up, `logs -f`, `events -f` and live
//     top. `logs -f` also ends with the last rank and reports its end. up stops its mesh, then its
//     hostd, before the exit.
//   - CLI-C6 (secrets): Only env prints secrets. The example lines of up take secrets from env.
//   - CLI-C7 (inspection): mesh show and explain answer within seconds and name silent parties. The
//     owner's report of ranks overrides that of hosts. explain is a pure function of mesh show.
//   - CLI-C8 (doctor): doctor ends within --timeout with a result for every check. It joins only
//     after a check of permissions, and its probes reach no one. A failed check gives exit code 1.
//
// # Layout
//
// The root has one file cmd_*.go per command, with its cobra command and the tables it prints.
// Package mesh/inspect answers what a mesh, its ranks, actors and links are. The rest is under
// internal:
//
//   - app: connection, limits and completion of one run; candidates: the names to complete
//   - flags, target: command lines into values, meshes and hosts
//   - output: tables, JSON, colours and progress
//   - casting, logs, events, top, screen, doctor, hostexec, heldmesh, worldfile: single commands
//   - mcpserver: these commands as tools
//
// A command runs on one goroutine. A function that starts another one waits for it.
package main

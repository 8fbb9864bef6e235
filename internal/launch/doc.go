// Package launch owns operating system processes: it starts them, keeps their
// output, tells how they ended, and stops them, always.
//
// # Use
//
// The launching side makes one [Launcher] and asks it for children:
//
//	l := launch.New(launch.Options{Log: log})
//	defer l.Close()
//	child, err := l.Launch(launch.Spec{Name: "workers-0", Path: exe, Payload: boot, LogDir: dir})
//	...
//	child.Terminate(10 * time.Second) // TERM now, KILL in 10 s at the latest
//	<-child.Done()
//	fmt.Println(child.Exit()) // exited with code 0
//
// The launched side takes over what it inherited, once, early in main:
//
//	in, launched, err := launch.FromEnv(os.Getenv)
//	boot, err := in.Payload()
//	<-in.Lifeline() // the launcher is gone
//
// A child starts with five descriptors and no others: an empty stdin, its two log files, the payload pipe (3)
// and the lifeline (4). To that end Launch marks
// whatever else the launcher's process has open as close-on-exec. The environment
// variable CASTNET_PROC=3,4 only announces the last two; the payload itself
// never appears in an argument list or an environment.
//
// # Trees and limits
//
// All that a child starts ends with it. Where a cgroup v2 can be had (Linux 5.14,
// a cgroup this process may make others in) each child is forked into one of its
// own below the launcher's, and neither setsid nor a double fork leaves it, nor a
// fork that is under way; only who may write to the cgroup file system can.
// Elsewhere there is its process group and, with [Options.Subreaper], the orphans
// that come to this process, known by CASTNET_TREE in their environment.
// [Launcher.Trees] says which it is; less than a cgroup is also logged, once.
//
// [Limits] are in force before the first instruction of the child, which is held
// there by ptrace where it has any that a fork cannot be given; a set-user-id
// program then runs without its privileges. Memory, pids and CPU need a cgroup
// controller: that of v2 where it is delegated, else a v1 hierarchy.
// [Child.Unenforced] lists what is not in force. Exit.OOM comes from the child's
// own memory cgroup; without one, a kill for want of memory is a plain SIGKILL.
//
// # Kept children
//
// A child with [Spec.Keep] outlives its launcher. Its lifeline is the FIFO
// NAME.lifeline in [Options.StateDir], so that it learns from [Inherited.Held]
// when its launcher is gone and when another holds it again. What the other must
// know is [Child.Record], to be written down by the caller. The next launcher of
// the same StateDir, which one at a time may use, begins so:
//
//	child, err := l.Adopt(record)  // each; ErrGone, ErrNotSame, ErrOtherBoot
//	left, err := l.Census()        // ends what nobody adopted
//
// [Launcher.Leave] ends a launcher without its kept children.
//
// # Ordering and concurrency
//
// All methods may be called from any goroutine. Only [Launcher.Close],
// [Child.Exit] and following wait for a child; Launch waits until it has been
// executed or refused. A child's exit and the end of its output are two
// separate events: output goes to files, so a grandchild that keeps them open
// delays nobody. When [Child.Done] is closed, what the child itself wrote is
// in its files.
//
// # Invariants
//
//   - LCH-1 One thread. Every child is forked by one locked thread that lives
//     until Close, because Linux sends PDEATHSIG when the forking thread ends.
//   - LCH-2 One holder. Only the launcher holds the write end of a lifeline;
//     siblings inherit nothing of each other.
//   - LCH-3 All or nothing. A failed Launch leaves no process, descriptor,
//     goroutine, or file that was not there before.
//   - LCH-4 Whole tree. When Done is closed no process of the child's tree lives,
//     unless SIGKILL did not end it within Options.KillWait, which is logged and
//     in Exit.Survivors. Its group was killed before the group's number could be
//     used again. What the tree is, Launcher.Trees says; its cgroups are removed.
//   - LCH-5 Right target. No signal is sent to a number whose process has been
//     reaped.
//   - LCH-6 KILL is reached. Every Terminate ends in an exit or in SIGKILL to
//     the tree at its deadline, which [Child.Overdue] tells; a later call may only
//     bring that forward.
//   - LCH-7 One end. Done is closed exactly once, after Exit is recorded.
//   - LCH-8 Bounded. Payloads, lines, tails and Close all have a limit.
//   - LCH-9 Found again. Whatever the instant at which a launcher is killed, the
//     next one of its StateDir adopts each kept child or ends it, and there are
//     never two of one name: Launch refuses the second with ErrKeptAlive.
//   - LCH-10 Bounded files. Of each output the newest Spec.LogCap bytes are kept,
//     and of older ones at most as many, while somebody follows.
//
// # Output
//
// A child holds its log files itself, so neither a slow reader nor the end of
// the launcher holds it up; nor can a file be taken from it, to be rotated in
// the usual way. Instead [Child.Follow] cuts a hole into the old part of a file:
// the file keeps its length, offsets stay true, nobody appends there, so that
// there is no moment in which a line could be lost. A program that reads such a
// file from its beginning sees NUL bytes where the hole is; `tail` and Follow do
// not. File systems without holes (and systems other than Linux) begin the file
// anew, with microseconds in which a line can be lost.
//
// What is printed faster than Follow can read is let go of unread, and counted. On
// two busy cores Follow read 250 MB/s; a shell that printed 1 GB took 3 s to 5 s
// with a cap and without; of its output 226 MiB were on the disk at most, at
// the default cap, and 80 MiB in the end.
//
// When a disk is nearly full, all but the last 64 KiB of each output make room
// and are counted; what the kernel refuses a child to write is known to the child
// only. A child whose log files cannot be made, because the disk is full or may
// only be read, runs without: [Child.Unkept] says why.
//
// # Failure
//
// Launch returns a [*LaunchError] that wraps the cause, so errors.Is works with
// fs.ErrNotExist and fs.ErrPermission. A process that survives SIGKILL (it
// sleeps uninterruptibly in the kernel) is reported in the log and keeps its
// Child; Close gives it up after Options.KillWait, records Exit.Unknown and
// says so in its error. Nothing else in the launcher's process may wait for
// children it does not own (wait4 of -1): who takes an exit status from us turns
// it into Exit.Unknown.
//
// If the launcher's process dies, the kernel kills its children (PDEATHSIG,
// Linux only; a set-user-id program loses it; Options.NoDeathSignal turns it off)
// and each of them sees the end of its lifeline. What those had started and put
// outside their group lives until the next launcher's Census; without cgroups,
// for as long as it likes. Linux needs version 5.4 or later (pidfd). Other Unix
// systems have the smaller promise written in sys_other.go.
//
// The points at which tests kill the launcher (see internal/failpoint):
//
//   - launch-planted: the cgroups exist, the process does not
//   - launch-forked: it runs, or is held before its limits are in force
//   - launch-payload: it is watched, and its payload is not written
//   - launch-delivered: the payload is written
//   - launch-tree-killed: its tree was killed, it is a zombie
//   - launch-reaped: it was reaped, its cgroups and lifeline exist
//   - adopt-verified: the process is the one in the record
//   - adopt-held: its lifeline is held
//   - census-killed: a dead launcher's tree was killed, its cgroup exists
//
// and the one at which they have it refused something:
//
//   - launch-fork: a fork, with EAGAIN
package launch

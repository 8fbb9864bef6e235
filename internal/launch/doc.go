// Package launch owns operating system processes. It starts them, keeps their output (package
// logfile), reports their exits, and always stops them.
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
// A child starts with exactly five descriptors: an empty stdin, two log files, the payload pipe (3)
// and the lifeline (4). Launch marks all other descriptors of its process as close-on-exec. The
// variable CASTNET_PROC=3,4 announces the last two. The payload never appears in arguments or
// environment.
//
// # Trees and limits
//
// All descendants of a child end with it. With cgroup v2 each child is forked into a cgroup of its
// own (package cgroup). Neither setsid nor a double fork escapes from it; only a process with write
// access to the cgroup file system can.
//
// Without cgroups the tree is the process group. With [Options.Subreaper] it includes orphans,
// known by CASTNET_TREE in their environment. [Launcher.TreeControl] names the method. The launcher
// logs once if it is weaker than a cgroup.
//
// [Limits] apply from the first instruction of the child. If a limit cannot be set at the fork,
// ptrace holds the child there; a set-user-id program then runs without its privileges. Limits of
// memory, pids and CPU need a cgroup controller, delegated in v2 or in a v1 hierarchy.
// [Child.Unenforced] lists limits without effect. Exit.OOM needs the child's own memory cgroup;
// otherwise an out-of-memory kill is a plain SIGKILL.
//
// # Kept children
//
// A child with [Spec.Keep] outlives its launcher. Its lifeline is the FIFO NAME.lifeline in
// [Options.StateDir]. [Inherited.LauncherPresent] reports the loss of the launcher and the arrival
// of the next one. The caller stores [Child.Record]. The next launcher with the same StateDir, used
// by one launcher at a time, begins as follows:
//
//	child, err := l.Adopt(record)       // each; ErrGone, ErrPIDReused, ErrOtherBoot
//	left, err := l.KillLeftovers()      // ends all unadopted children
//
// [Launcher.Detach] ends a launcher without its kept children.
//
// # Ordering and concurrency
//
// All methods are safe for concurrent use. Only [Launcher.Close] and [Child.Exit] wait for a
// child. Launch waits for the exec. The exit of a child and the end of its output are separate
// events: output goes to files, so a grandchild with open files delays no one. When [Child.Done] is
// closed, the child's own output is in its files.
//
// # Invariants
//
//   - LCH-1 (death of the launcher): When the launcher's process dies, each child sees the end of
//     its lifeline and, on Linux, gets PDEATHSIG. Only the launcher holds the write ends; siblings
//     inherit nothing of each other.
//   - LCH-3 (all or nothing): A failed Launch leaves no new process, descriptor, goroutine or file.
//   - LCH-4 (whole tree): Done closes once, after Exit is recorded. Then no process of the child's
//     tree lives, except survivors of SIGKILL (logged, Exit.Survivors). No signal goes to the
//     number of a reaped process.
//   - LCH-6 (bounded): Every Terminate ends in an exit, or in SIGKILL to the tree at its deadline,
//     reported by [Child.GraceExpired]. A later call can only shorten the deadline. Payloads,
//     tails and Close have limits.
//   - LCH-9 (kept children): After the crash of a launcher at any instant, the next one of its
//     StateDir adopts or ends each kept child. No two children share a name: Launch returns
//     ErrKeptAlive.
//   - LCH-10 (privileges): On Linux set-user-ID bits and file capabilities give a child, and what
//     it starts, no privileges. With Options.User all children have exactly the IDs of that user. A
//     launch that cannot set Options.ProcessLimits fails.
//
// # Details
//
// One locked thread forks every child and lives until Close, because Linux sends PDEATHSIG at the
// end of the forking thread. [Launcher.TreeControl] defines the tree. SIGKILL has Options.KillWait
// to take effect. The group is killed before its number is free, and its cgroups are removed.
//
// If the disk is full or read-only, a child runs without its log files. The error in [Child.Output]
// has the cause.
//
// # Failure
//
// Launch returns a [*LaunchError] with the cause, for errors.Is with fs.ErrNotExist and
// fs.ErrPermission. A process that survives SIGKILL, in an uninterruptible kernel sleep, is logged
// and keeps its Child. Close abandons it after Options.KillWait, records Exit.Unknown and returns
// an error. No other code in the process may wait for foreign children (wait4 of -1): a stolen exit
// status also becomes Exit.Unknown.
//
// If the launcher's process dies, the kernel kills its children by PDEATHSIG (Linux only; not for
// set-user-id programs; not with Options.NoDeathSignal). Each child also sees the end of its
// lifeline. Descendants outside their group live until the next KillLeftovers, or without cgroups
// until they end. Linux 5.4 or later is required (pidfd). handle_other.go lists the weaker promises
// of other Unix systems.
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
//
// The point at which they simulate an error:
//
//   - launch-fork: a fork, with EAGAIN
package launch

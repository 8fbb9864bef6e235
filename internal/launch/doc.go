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
// A child starts with five descriptors and no others: an empty stdin, its two
// log files, the payload pipe (3) and the lifeline (4). To that end Launch marks
// whatever else the launcher's process has open as close-on-exec. The environment
// variable CASTNET_PROC=3,4 only announces the last two; the payload itself
// never appears in an argument list or an environment.
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
//   - LCH-4 Whole group. When Done is closed every process of the child's group
//     has been sent SIGKILL, before the group's number could be used again.
//   - LCH-5 Right target. No signal is sent to a number whose process has been
//     reaped.
//   - LCH-6 KILL is reached. Every Terminate ends in an exit or in SIGKILL to
//     the group at its deadline; a later call may only bring that forward.
//   - LCH-7 One end. Done is closed exactly once, after Exit is recorded.
//   - LCH-8 Bounded. Payloads, lines, tails, and Close all have a limit.
//
// # Failure
//
// Launch returns a [*LaunchError] that wraps the cause, so errors.Is works with
// fs.ErrNotExist and fs.ErrPermission. A process that survives SIGKILL (it
// sleeps uninterruptibly in the kernel) is reported in the log and keeps its
// Child; Close gives it up after Options.KillWait, records Exit.Unknown and
// says so in its error. A process that moved to a session or group of its own is
// outside the group and is reached only if it keeps the lifeline. Nothing else
// in the launcher's process may wait for children it does not own (wait4 of -1):
// who takes an exit status from us turns it into Exit.Unknown.
//
// If the launcher's process dies, the kernel kills its children (PDEATHSIG,
// Linux only; a set-user-id program loses it) and each of them sees the end of
// its lifeline. Linux needs version 5.4 or later (pidfd). Other Unix systems
// have the smaller promise written in sys_other.go.
package launch

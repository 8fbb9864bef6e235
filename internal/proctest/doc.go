// Package proctest suspends and resumes processes in tests.
//
//	proctest.Suspend(t, pid) // the process is silent from now on
//
// A signal takes effect with a delay, so a process may still answer after it. Functions here return
// once the process has the requested state. Otherwise they fail the test. Call them on the
// goroutine of the test.
package proctest

// Package proctest does to processes what tests need.
//
//	proctest.Suspend(t, pid) // it hears nothing and says nothing from now on
//
// A signal is on its way for a while: who goes on at once may still get an answer of a process that is to be
// silent. Functions here return when what they ask for is so. They fail the test otherwise, and are called on
// its goroutine.
package proctest

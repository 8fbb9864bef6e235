// Command stress repeats the tests of packages, on a machine that is as busy as one wants, and
// prints how many runs of a thousand fail.
//
//	go run ./scripts/stress -n 1000 -busy 4 -run TestX ./mesh ./actor
//
// It compiles the tests of each package once. Then it runs n rounds, one after the other: a round
// runs the tests of every package once, each in a new process, and -p of them at once, as go test
// does. The output of a run that failed is kept in a folder, which the report names. GOMAXPROCS and
// other variables reach the tests. The exit code is 0 when no run failed, 1 when one did, 2 when
// the tests could not be run, and 130 after Ctrl-C, which still prints the report.
package main

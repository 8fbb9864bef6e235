package testkit

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// parallel is the number of parallel tests of a package on any machine, because they mostly wait
// for processes, leases and deadlines.
const parallel = "12"

// Main runs the tests of a package with mostly waiting parallel tests, and fails for a leaked
// goroutine. The flag -parallel overrides the number of parallel tests.
func Main(m *testing.M, options ...goleak.Option) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m, options...)
}

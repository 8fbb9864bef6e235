package testkit

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// parallel is how many parallel tests of a package run at once, whatever the number of CPUs: they
// wait for processes, leases and deadlines most of the time.
const parallel = "12"

// Main runs the tests of a package whose parallel tests mostly wait, and fails when a goroutine is
// left. The flag -parallel overrides how many run at once.
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

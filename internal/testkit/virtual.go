package testkit

import (
	"testing"
	"testing/synctest"
)

// Virtual runs a test in a bubble of testing/synctest, parallel to others. While everything in the
// bubble waits, its clock moves to the next timer. The test uses no socket and no process.
func Virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

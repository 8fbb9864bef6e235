//go:build !failpoint

package failpoint_test

import (
	"testing"

	"github.com/castnet-io/castnet/internal/failpoint"
)

func TestHit_isANoOpInANormalBuild(t *testing.T) {
	t.Setenv(failpoint.EnvVar, "there")
	failpoint.Hit("there")
	t.Setenv(failpoint.RefuseVar, "there")
	if failpoint.Refused("there") {
		t.Fatal("refused")
	}
}

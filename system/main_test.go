package system

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"

	"github.com/castnet-io/castnet/internal/testkit"
)

// The process has one clock of JetStream, outside all bubbles.
func TestMain(m *testing.M) {
	ats.Register()
	testkit.Main(m, goleak.IgnoreCurrent())
}

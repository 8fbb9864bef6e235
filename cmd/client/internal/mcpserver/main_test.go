package mcpserver

import (
	"testing"

	"github.com/castnet-io/castnet/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/mesh"
)

// printing prints a line.
type printing struct{}

var (
	printer   = actor.NewType[*printing, actor.None]("printer")
	printLine = actor.NewEndpoint[*printing, string, actor.None]("print")
)

func printerDef() actor.Def {
	return printer.Define(func(*actor.Context, actor.None) (*printing, error) { return &printing{}, nil },
		printLine.Handle(func(_ *printing, _ *actor.Context, line string) (actor.None, error) {
			_, err := fmt.Println(line)
			return actor.None{}, err
		}))
}

func TestStreamLogs_foldsRealProcsAndReportsAKilledHost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.connect(t)
	require.NoError(t, config.LogsMirror.Override(conn.Config(), true))
	procs := c.spawn(t, conn, 4)
	printers, err := mesh.Spawn(t.Context(), procs, printer, "printers", actor.None{})
	require.NoError(t, err)
	var heard testkit.Notes[string]
	logs, err := procs.StreamLogs(t.Context(), mesh.LogOptions{
		FoldWindow: time.Hour,
		Handle: func(l mesh.LogLine) error {
			heard.Add(l.String())
			return nil
		},
	})
	require.NoError(t, err)
	defer logs.Close()
	for i := range 30 { // a line of all ranks waits for no window
		_, err = cast.Gather(t.Context(), printers, printLine, strings.Repeat("round ", i+1))
		require.NoError(t, err)
		require.NoError(t, logs.Flush(t.Context()))
		require.Equal(t, []string{"[*] 8× " + strings.Repeat("round ", i+1)}, heard.Take(t, 1))
	}
	c.nodes[0].Out.Await(t, "["+procs.Describe().ProcID(0, 0).String()+"] round ")

	c.nodes[1].kill(t)
	_, err = cast.Gather(t.Context(), printers.Slice("host", 0, 1), printLine, "still here")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorContains(t, logs.Flush(ctx), "ranks host=1,proc=*: ")
	require.Contains(t, heard.All(nil), "[host=0,proc=*] 4× still here")
	for !t.Failed() {
		said := heard.All(func(l string) bool { return strings.Contains(l, "[castnet] host b does not answer: ") })
		if len(said) > 0 {
			require.True(t, strings.HasPrefix(said[0], "[host=1,proc=* stderr]"), said[0])
			break
		}
		heard.Await(t, len(heard.All(nil))+1, nil)
	}
}

package actor_test

import (
	"bytes"
	"context"
	"regexp"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/testkit"
)

// ownLabels returns the labels of the goroutine that calls it, as a profile of goroutines shows
// them. That goroutine is the one in this function.
func ownLabels(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
	for _, group := range bytes.Split(b.Bytes(), []byte("\n\n")) {
		if bytes.Contains(group, []byte("ownLabels")) {
			return string(regexp.MustCompile(`# labels: (.*)`).Find(group))
		}
	}
	return "not found"
}

// The test is not parallel: ownLabels wants one goroutine in it.
func TestLabelTurns_nameTheTypeAndTheEndpointOfATurn(t *testing.T) {
	p := alone(t)
	ref := spawn(t, p)
	handler := func() (labels string) {
		_, err := do.Call(testkit.Soon(t), ref, func(*actor.Context, *Box) (int64, error) {
			labels = ownLabels(t)
			return 0, nil
		})
		require.NoError(t, err)
		return labels
	}
	require.Empty(t, handler(), "no profile is taken")
	stop, second := actor.LabelTurns(p), actor.LabelTurns(p)
	stop()
	require.Equal(t, `# labels: {"actor_type":"box", "endpoint":"do"}`, handler())

	task := make(chan string, 1)
	result := make(chan string, 1)
	_, err := do.Call(testkit.Soon(t), ref, func(ctx *actor.Context, _ *Box) (int64, error) {
		ctx.Go(func(context.Context) func(*actor.Context) {
			task <- ownLabels(t)
			return func(*actor.Context) { result <- ownLabels(t) }
		})
		return 0, nil
	})
	require.NoError(t, err)
	require.Equal(t, `# labels: {"actor_type":"box", "endpoint":"do"}`, <-task, "tasks inherit those of the handler")
	require.Equal(t, `# labels: {"actor_type":"box"}`, <-result)
	second()
	second()
	require.Empty(t, handler(), "the goroutine was cleared")
}

package inspect

import (
	"context"

	"github.com/castnet-io/castnet/mesh"
)

// logBuffer bounds the lines on their way to a reader. The hosts keep further ones.
const logBuffer = 256

// LogFollower passes the output of procs to a slow reader.
type LogFollower struct {
	Lines  <-chan mesh.LogLine
	cancel context.CancelFunc
	stream *mesh.LogStream
}

// FollowLogs follows the output of a region, from its last lines on; -1: from now on. It ends with
// ctx and Close.
func FollowLogs(ctx context.Context, of mesh.ProcMesh, lines int) (*LogFollower, error) {
	heard := make(chan mesh.LogLine, logBuffer)
	ctx, cancel := context.WithCancel(ctx)
	stream, err := of.StreamLogs(ctx, mesh.LogOptions{
		LogQuery: mesh.LogQuery{Lines: lines},
		Handle: func(l mesh.LogLine) error {
			select {
			case heard <- l:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return &LogFollower{heard, cancel, stream}, nil
}

// Close ends the stream.
func (f *LogFollower) Close() {
	f.cancel() // else Close would wait for a line that nobody takes
	_ = f.stream.Close()
}

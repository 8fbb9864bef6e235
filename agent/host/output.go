package host

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/subjects"
)

// Streams of a proc's output, as they appear in `log.` subjects.
const (
	streamOut = "stdout"
	streamErr = "stderr"
)

// output is what becomes of a proc's output: its lines go to the bus.
type output struct{ following sync.WaitGroup }

// follow publishes what a proc prints, line by line, until it has ended and all is read.
func follow(ctx *actor.Context, id subjects.ProcID, process process) *output {
	o, p := &output{}, ctx.Proc()
	for stream, follow := range map[string]func(context.Context, func([]byte)) error{
		streamOut: process.FollowStdout,
		streamErr: process.FollowStderr,
	} {
		subject := p.Space().Log(id, stream, p.ID().Process().String())
		o.following.Add(1)
		ctx.Go(func(work context.Context) func(*actor.Context) {
			defer o.following.Done()
			err := follow(work, func(line []byte) {
				_ = p.Bus().Data().Publish(subject, line) // a log line lost with the bus is still in the file
			})
			if err != nil && work.Err() == nil {
				log := p.Log()
				log.Warn().Err(err).Stringer("of", id).Str("stream", stream).Msg("output is no longer followed")
			}
			return nil
		})
	}
	return o
}

// wait returns when what the proc printed before its end has been published.
func (o *output) wait() { o.following.Wait() }

// Logs answers the last lines of the procs of a mesh, fewer when they are too many for one message.
func (a *hostAgent) Logs(_ *actor.Context, q agent.LogQuery) ([]agent.LogTail, error) {
	var out []agent.LogTail
	for id, c := range a.children {
		if id.Mesh.String() != q.ID || c.process == nil {
			continue
		}
		out = append(out,
			agent.LogTail{Rank: c.rank, Stream: streamOut, Lines: c.process.StdoutTail(q.Lines)},
			agent.LogTail{Rank: c.rank, Stream: streamErr, Lines: c.process.StderrTail(q.Lines)})
	}
	slices.SortStableFunc(out, func(x, y agent.LogTail) int { return cmp.Compare(x.Rank, y.Rank) })
	for i := range out {
		out[i].Lines = newest(out[i].Lines, maxLogs/len(out))
	}
	return out, nil
}

// maxLogs bounds the bytes of an answer to Logs: half of what a message may hold by default.
const maxLogs = 512 << 10

// newest is the last lines that fit into so many bytes; each costs some to encode.
func newest(lines []string, budget int) []string {
	for i := len(lines) - 1; i >= 0; i-- {
		if budget -= len(lines[i]) + 5; budget < 0 {
			return lines[i+1:]
		}
	}
	return lines
}

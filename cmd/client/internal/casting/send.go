package casting

import (
	"context"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/client/internal/target"
	"github.com/castnet-io/castnet/internal/cli"
)

// sendResult is the result of a cast without replies. Its JSON names are stable.
type sendResult struct {
	Asked        int     `json:"asked"`
	Sent         int     `json:"sent"` // passed to the bus
	Failed       []Reply `json:"failed"`
	FailedRegion string  `json:"failed_region,omitempty"`
}

// castSend sends to all ranks and reports those known to be gone.
func castSend(ctx context.Context, out *output.Printer, k resolved) error {
	err := cast.Send(ctx, k.throttledMesh, k.Endpoint, k.Message)
	c, err := fromCast(k.Resolved, err, len(k.askedRanks()), 0)
	if err != nil {
		return err
	}
	if err := k.net.Proc().Flush(ctx); err != nil { // all messages are out before this process ends
		return err
	}
	p := sendResult{Asked: c.Asked, Sent: c.Answered, Failed: c.Failed, FailedRegion: c.FailedRegion}
	written, err := out.WriteDocument(p)
	if !written {
		out.Notef("asked %d · sent %d · failed %s", p.Asked, p.Sent, formatRanks(len(p.Failed), p.FailedRegion))
	}
	if err != nil {
		return err
	}
	return c.partialError(k.Base, "did not get the message")
}

// castChoose prints the reply of one rank.
func castChoose(ctx context.Context, out *output.Printer, k resolved) error {
	begun := time.Now()
	view, value, err := cast.ChooseRank(ctx, k.throttledMesh, k.Endpoint, k.Message)
	if err != nil {
		return cli.WithCode(
			cli.ExitCode(err), fmt.Errorf("[%s] %s", k.Point(view), failedReply(k.Resolved, view, err).Error),
		)
	}
	raw, err := target.EncodeValue(value)
	if err != nil {
		return err
	}
	chosen := Reply{Rank: k.Rank(view), Point: k.Point(view), Value: raw, MS: millisSince(begun)}
	if written, err := out.WriteDocument(chosen); written {
		return err
	}
	_, err = fmt.Fprintf(out.Stdout, "%s\n", raw)
	if err == nil {
		out.Notef("asked %s", chosen.Point)
	}
	return err
}

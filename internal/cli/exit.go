package cli

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Exit codes are stable, because scripts read them.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2   // wrong command line or value
	ExitNotFound    = 3   // unknown name, or no listener
	ExitPartial     = 4   // some ranks or hosts failed or are missing
	ExitTimeout     = 5   // no reply in time
	ExitConnection  = 6   // bus unreachable, or access refused
	ExitInterrupted = 130 // by a signal, as in shells
)

// ExitCode returns the exit code of a command's error (CLI-5).
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if coded, ok := errors.AsType[*codedError](err); ok {
		return coded.code
	}
	if partial, ok := errors.AsType[*cast.CoverageError](err); ok {
		return coverageCode(partial)
	}
	for _, row := range exitCodes {
		if row.match(err) {
			return row.code
		}
	}
	return ExitFailure
}

// exitCodes is ordered: a timeout on the bus connection counts as a connection error.
var exitCodes = [...]struct {
	code  int
	match func(error) bool
}{
	{ExitConnection, matchesType[*bus.ConnectError]},
	{ExitConnection, matchesType[*bus.PermissionError]},
	{ExitConnection, matchesAny(bus.ErrClosed, bus.ErrDisconnected, actor.ErrUnavailable)},
	{ExitUsage, matchesType[*config.Error]},
	{ExitUsage, matchesType[*subjects.Error]},
	{ExitUsage, matchesType[*shape.Error]},
	{ExitUsage, matchesAny(actor.ErrInvalid, actor.ErrBadMessage)},
	{ExitPartial, matchesType[*mesh.MissingHostsError]},
	{ExitNotFound, matchesType[*mesh.NotFoundError]},
	{ExitNotFound, matchesAny(notFoundErrors...)},
	{ExitTimeout, matchesAny(context.DeadlineExceeded)},
	{ExitInterrupted, matchesAny(context.Canceled)},
}

var notFoundErrors = []error{
	actor.ErrNoActor, actor.ErrNoEndpoint, actor.ErrNoProc, actor.ErrPortGone, bus.ErrNoResponders,
}

// coverageCode returns the partial code. If every rank reports an unknown name or a bad message, it
// returns the code of that error, because then the request was wrong.
func coverageCode(e *cast.CoverageError) int {
	c := e.Coverage
	if c.Asked == 0 || len(c.Failed) != c.Asked {
		return ExitPartial
	}
	code := ExitCode(c.Failed[0].Err)
	for _, f := range c.Failed {
		if ExitCode(f.Err) != code {
			return ExitPartial
		}
	}
	if code == ExitNotFound || code == ExitUsage {
		return code
	}
	return ExitPartial
}

func matchesType[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func matchesAny(any ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range any {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

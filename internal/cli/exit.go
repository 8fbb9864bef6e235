package cli

import (
	"context"
	"errors"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Exit codes are a contract: scripts read them.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2   // the command line, or a value in it, is wrong
	ExitNotFound    = 3   // nobody has that name, or nobody listens
	ExitPartial     = 4   // some ranks or hosts failed or are missing
	ExitTimeout     = 5   // no answer in time
	ExitConnection  = 6   // the bus cannot be reached, or refuses
	ExitInterrupted = 130 // by a signal, as shells have it
)

// ExitCode is the code for the error a command ended with (CLI-5).
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

// exitCodes is read in order: an error that waited for a bus in vain is about the bus.
var exitCodes = [...]struct {
	code  int
	match func(error) bool
}{
	{ExitConnection, as[*bus.ConnectError]},
	{ExitConnection, as[*bus.PermissionError]},
	{ExitConnection, is(bus.ErrClosed, bus.ErrDisconnected, actor.ErrUnavailable)},
	{ExitUsage, as[*config.Error]},
	{ExitUsage, as[*subjects.Error]},
	{ExitUsage, as[*shape.Error]},
	{ExitUsage, is(actor.ErrInvalid, actor.ErrBadMessage)},
	{ExitPartial, as[*mesh.MissingHostsError]},
	{ExitNotFound, as[*mesh.NotFoundError]},
	{ExitNotFound, is(notFound...)},
	{ExitTimeout, is(context.DeadlineExceeded)},
	{ExitInterrupted, is(context.Canceled)},
}

var notFound = []error{actor.ErrNoActor, actor.ErrNoEndpoint, actor.ErrNoProc, actor.ErrPortGone, bus.ErrNoResponders}

// coverageCode is partial, except where every rank that was asked says that there is no such
// thing, or that the message is not what it takes: then the question was wrong, not the mesh.
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

func as[E error](err error) bool { _, ok := errors.AsType[E](err); return ok }

func is(any ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range any {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

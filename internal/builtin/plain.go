package builtin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/mesh/shape"
)

var (
	plainType = actor.NewType[*plain, plainParams]("plain")
	ask       = actor.NewEndpoint[*plain, any, any]("ask")
	tell      = actor.NewEndpoint[*plain, any, actor.None]("tell")
)

// Headers of a message to a program, besides those that package actor names.
const (
	headerPoint = "Castnet-Point"
	headerFrom  = "Castnet-From"
	headerTTL   = "Castnet-TTL"
)

// plain stands for a program that serves a subject.
type plain struct {
	subject string
	rank    string
	point   string
}

// plainParams says what it serves.
type plainParams struct {
	Subject string `json:"subject"`
}

func newPlain(ctx *actor.Context, params plainParams) (*plain, error) {
	subject, err := params.of(ctx)
	if err != nil {
		return nil, err
	}
	return &plain{subject, strconv.Itoa(int(ctx.Self().Proc.Rank)), coordinates(ctx.Point())}, nil
}

// ask waits for one reply.
func (p *plain) ask(ctx *actor.Context, v any) (any, error) {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(actor.DefaultDeadline)
	}
	m, err := p.message(ctx, v, until)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	reply, err := ctx.Proc().Bus().Data().Request(wait, m)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(wait) // the end of the actor, when that is why
	}
	if err != nil {
		return nil, p.failed(err)
	}
	return p.open(reply)
}

// tell waits for nothing.
func (p *plain) tell(ctx *actor.Context, v any) (actor.None, error) {
	until, _ := ctx.Deadline()
	m, err := p.message(ctx, v, until)
	if err == nil {
		err = p.failed(ctx.Proc().Bus().Data().PublishMsg(m))
	}
	return actor.None{}, err
}

// message is what the program gets.
func (p *plain) message(ctx *actor.Context, v any, until time.Time) (bus.Msg, error) {
	body, err := toJSON(v)
	if err != nil {
		return bus.Msg{}, &actor.Error{Code: actor.CodeBadMessage, Text: err.Error()}
	}
	h := bus.Header{}
	h.Set(actor.HeaderContentType, wire.JSON.ContentType())
	h.Set(actor.HeaderRank, p.rank)
	h.Set(headerPoint, p.point)
	if from := ctx.Sender(); from.IsValid() {
		h.Set(headerFrom, from.String())
	}
	if !until.IsZero() {
		h.Set(headerTTL, seconds(time.Until(until)))
	}
	return bus.Msg{Subject: p.subject, Header: h, Data: body}, nil
}

// open reads what the program replied.
func (p *plain) open(reply bus.Msg) (any, error) {
	text, code := reply.Header.Get(actor.HeaderError), reply.Header.Get(actor.HeaderErrorCode)
	switch {
	case code != "":
		return nil, fmt.Errorf("%s: %s (code %s)", p.subject, text, code)
	case text != "":
		return nil, fmt.Errorf("%s: %s", p.subject, text)
	}
	v, err := fromJSON(reply.Data)
	if err != nil {
		return nil, fmt.Errorf("a reply of %s: %w", p.subject, err)
	}
	return v, nil
}

// failed is why there is no reply, or a message that was not published.
func (p *plain) failed(err error) error {
	about := func(code actor.Code) error { return &actor.Error{Code: code, Text: err.Error()} }
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return fmt.Errorf("nobody serves %s", p.subject)
	case errors.Is(err, context.DeadlineExceeded):
		return &actor.Error{Code: actor.CodeDeadline, Text: "no reply of " + p.subject + " within the deadline"}
	case errors.Is(err, context.Canceled):
		return about(actor.CodeCanceled)
	case errors.Is(err, bus.ErrTooLarge):
		return about(actor.CodeTooLarge)
	case errors.Is(err, bus.ErrDisconnected), errors.Is(err, bus.ErrClosed):
		return about(actor.CodeUnavailable)
	}
	return err // a permission that is missing, the end of the actor
}

// coordinates are a point's, as the gateway writes them: host=0,gpu=3.
func coordinates(p shape.Point) string {
	parts := make([]string, len(p.Coords()))
	for i, c := range p.Coords() {
		parts[i] = p.Extent().Dims()[i].Label + "=" + strconv.Itoa(c)
	}
	return strings.Join(parts, ",")
}

// seconds is a duration in one unit, which other languages read without a parser: 29.997s.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(max(d, 0).Truncate(time.Millisecond).Seconds(), 'f', -1, 64) + "s"
}

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
	"github.com/castnet-io/castnet/shape"
)

var (
	subjectProxyType = actor.NewType[*subjectProxy, subjectProxyParams]("plain")
	request          = actor.NewEndpoint[*subjectProxy, any, any]("request")
	publish          = actor.NewEndpoint[*subjectProxy, any, actor.None]("publish")
)

// Headers of a message to a program, besides those of package actor.
const (
	headerPoint = "Castnet-Point"
	headerFrom  = "Castnet-From"
	headerTTL   = "Castnet-TTL"
)

// subjectProxy stands for a program that serves a subject.
type subjectProxy struct {
	subject string
	rank    string
	point   string
}

// subjectProxyParams are the parameters of a subjectProxy.
type subjectProxyParams struct {
	Subject string `json:"subject"`
}

func newSubjectProxy(ctx *actor.Context, params subjectProxyParams) (*subjectProxy, error) {
	subject, err := params.resolve(ctx)
	if err != nil {
		return nil, err
	}
	return &subjectProxy{subject, strconv.Itoa(int(ctx.Self().Proc.Rank)), formatPoint(ctx.Point())}, nil
}

// request waits for one reply.
func (p *subjectProxy) request(ctx *actor.Context, v any) (any, error) {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(actor.DefaultDeadline)
	}
	m, err := p.newMessage(ctx, v, until)
	if err != nil {
		return nil, err
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	reply, err := ctx.Proc().Bus().Data().Request(wait, m)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(wait) // the end of the actor, if it is the cause
	}
	if err != nil {
		return nil, p.toActorError(err)
	}
	return p.decodeReply(reply)
}

// publish sends the message and does not wait.
func (p *subjectProxy) publish(ctx *actor.Context, v any) (actor.None, error) {
	until, _ := ctx.Deadline()
	m, err := p.newMessage(ctx, v, until)
	if err == nil {
		err = p.toActorError(ctx.Proc().Bus().Data().PublishMsg(m))
	}
	return actor.None{}, err
}

// newMessage returns the message for the program.
func (p *subjectProxy) newMessage(ctx *actor.Context, v any, until time.Time) (bus.Msg, error) {
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
	ctx.Trace().AddTo(h)
	if !until.IsZero() {
		h.Set(headerTTL, formatSeconds(time.Until(until)))
	}
	return bus.Msg{Subject: p.subject, Header: h, Data: body}, nil
}

// decodeReply decodes the reply of the program.
func (p *subjectProxy) decodeReply(reply bus.Msg) (any, error) {
	text, code := reply.Header.Get(actor.HeaderError), reply.Header.Get(actor.HeaderErrorCode)
	if code != "" {
		return nil, fmt.Errorf("%s: %s (code %s)", p.subject, text, code)
	}
	if text != "" {
		return nil, fmt.Errorf("%s: %s", p.subject, text)
	}
	v, err := fromJSON(reply.Data)
	if err != nil {
		return nil, fmt.Errorf("a reply of %s: %w", p.subject, err)
	}
	return v, nil
}

// toActorError translates the error of a missing reply or a failed publish.
func (p *subjectProxy) toActorError(err error) error {
	about := func(code actor.Code) error { return &actor.Error{Code: code, Text: err.Error()} }
	switch {
	case errors.Is(err, bus.ErrNoResponders):
		return fmt.Errorf("no service listens on %s", p.subject)
	case errors.Is(err, context.DeadlineExceeded):
		return &actor.Error{Code: actor.CodeDeadline, Text: "no reply from " + p.subject + " within the deadline"}
	case errors.Is(err, context.Canceled):
		return about(actor.CodeCanceled)
	case errors.Is(err, bus.ErrTooLarge):
		return about(actor.CodeTooLarge)
	case errors.Is(err, bus.ErrDisconnected), errors.Is(err, bus.ErrClosed):
		return about(actor.CodeUnavailable)
	}
	return err // a missing permission, or the end of the actor
}

// formatPoint formats a point as the gateway does: host=0,gpu=3.
func formatPoint(p shape.Point) string {
	parts := make([]string, len(p.Coords()))
	for i, c := range p.Coords() {
		parts[i] = p.Extent().Dims()[i].Label + "=" + strconv.Itoa(c)
	}
	return strings.Join(parts, ",")
}

// formatSeconds formats a duration in seconds, easy to parse in other languages: 29.997s.
func formatSeconds(d time.Duration) string {
	return strconv.FormatFloat(max(d, 0).Truncate(time.Millisecond).Seconds(), 'f', -1, 64) + "s"
}

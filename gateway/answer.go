package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/shape"
)

// Headers of an answer.
const (
	headerPoint         = "Castnet-Point"
	headerAsked         = "Castnet-Asked"
	headerAnswered      = "Castnet-Answered"
	headerFailed        = "Castnet-Failed"
	headerMissing       = "Castnet-Missing"
	headerFailedRegion  = "Castnet-Failed-Region"
	headerMissingRegion = "Castnet-Missing-Region"
	headerPartial       = "Castnet-Partial"
)

const (
	maxPartial = 1 << 10  // bytes of the reasons of a partial answer
	maxRegion  = 16 << 10 // bytes of the name of a region
)

// codeDeadline is the HTTP status "gateway timeout".
const codeDeadline = 504

// coverage is the outcome of a request's ranks.
type coverage struct {
	asked, answered, failed, missing int
	sendOnly                         bool // no rank was to answer
	failedRegion, missingRegion      string
	first                            error // of the first rank that failed
}

// meshPoint is a rank in the whole mesh.
type meshPoint struct {
	rank  int
	point string
}

// meshPointOf finds a rank in the whole mesh.
func meshPointOf(base shape.Extent, rank int) meshPoint {
	p := meshPoint{rank: rank}
	point, err := base.Point(rank)
	if err != nil {
		return p
	}
	for i, c := range point.Coords() {
		if i > 0 {
			p.point += ","
		}
		p.point += base.Dims()[i].Label + "=" + strconv.Itoa(c)
	}
	return p
}

// outcome is the content of one message of an answer.
type outcome struct {
	body     any
	empty    bool // there is no body, which ends a stream
	err      error
	partial  bool // there is a body although there is an error
	point    *meshPoint
	coverage *coverage
}

// encoded is an encoded body.
type encoded []byte

// headerReserve is the room for the headers of a stream's message.
const headerReserve = 1 << 10

// encode encodes a value of a stream if it fits: a client that sees a rank as answered must get its
// value.
func (r request) encode(v value, most int) (encoded, error) {
	b, err := r.format.Encode(v)
	if err != nil {
		return nil, &actor.Error{Code: actor.CodeHandler, Text: err.Error(), Ran: true}
	}
	if len(b) > most-headerReserve {
		return nil, r.tooLarge(len(b), most)
	}
	return b, nil
}

// message writes an outcome down.
func (r request) message(o outcome) bus.Msg {
	out := bus.Msg{Subject: r.reply, Header: bus.Header{}}
	out.Header.Set(actor.HeaderContentType, r.format.ContentType())
	r.trace.AddTo(out.Header)
	if o.point != nil {
		out.Header.Set(actor.HeaderRank, strconv.Itoa(o.point.rank))
		out.Header.Set(headerPoint, o.point.point)
	}
	if o.coverage != nil {
		o.coverage.write(out.Header)
	}
	if raw, done := o.body.(encoded); done && o.err == nil {
		out.Data = raw
	} else if o.partial || o.err == nil && !o.empty {
		var err error
		out.Data, err = r.format.Encode(o.body)
		if err != nil {
			o.err = &actor.Error{Code: actor.CodeHandler, Text: err.Error(), Ran: true}
			o.partial = false
		}
	}
	if o.partial {
		out.Header.Set(headerPartial, oneLine(o.err.Error(), maxPartial))
	} else if o.err != nil {
		actor.FailForeign(&out, r.format, r.actor, r.endpoint, o.err)
		out.Header.Set(actor.HeaderErrorCode, strconv.Itoa(codeOf(o.err, o.coverage)))
	}
	return out
}

func (c coverage) write(h bus.Header) {
	for key, n := range map[string]int{
		headerAsked: c.asked, headerAnswered: c.answered, headerFailed: c.failed, headerMissing: c.missing,
	} {
		if key != headerAnswered || !c.sendOnly {
			h.Set(key, strconv.Itoa(n))
		}
	}
	if c.failed > 0 {
		h.Set(headerFailedRegion, truncateText(c.failedRegion, maxRegion))
	}
	if c.missing > 0 {
		h.Set(headerMissingRegion, truncateText(c.missingRegion, maxRegion))
	}
}

// codeOf is the code of an error; for a cast without answers, that of the first failure.
func codeOf(err error, c *coverage) int {
	if c != nil {
		switch _, covers := errors.AsType[*cast.CoverageError](err); {
		case !covers:
		case c.first != nil:
			err = c.first
		default:
			return codeDeadline
		}
	}
	e, ok := errors.AsType[*actor.Error](err)
	switch {
	case ok && (e.Code == actor.CodeDeadline || e.Code == actor.CodeExpired) && !e.Ran:
		return codeDeadline
	case ok:
		return e.HTTPCode()
	case errors.Is(err, context.DeadlineExceeded):
		return codeDeadline
	}
	return actor.FromWire(actor.EncodeError(err)).HTTPCode()
}

// coverageOf extracts the coverage from a verb's error; false when it has none.
func coverageOf(err error, asked int) (coverage, bool) {
	if err == nil {
		return coverage{asked: asked, answered: asked}, true
	}
	partial, ok := errors.AsType[*cast.CoverageError](err)
	if !ok {
		return coverage{}, false
	}
	c := partial.Coverage
	out := coverage{
		asked: c.Asked, answered: c.Answered, failed: len(c.Failed), missing: len(c.Missing),
		failedRegion: c.FailedRegion(), missingRegion: c.MissingRegion(),
	}
	if len(c.Failed) > 0 {
		out.first = c.Failed[0].Err
	}
	return out, true
}

// outcomeCounts counts the answers of a stream.
type outcomeCounts struct {
	base            shape.Extent
	answered        int
	failed, missing []int // base ranks
	first           error
}

// count takes one rank's answer, and reports whether the rank is missing.
func (t *outcomeCounts) count(rank int, err error) (missing bool) {
	switch {
	case err == nil:
		t.answered++
	case isNoAnswer(err):
		t.missing = append(t.missing, rank)
		return true
	default:
		t.failed = append(t.failed, rank)
		if t.first == nil {
			t.first = err
		}
	}
	return false
}

// isNoAnswer distinguishes a silent rank from one with an error.
func isNoAnswer(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return ok && (e.Code == actor.CodeDeadline || e.Code == actor.CodeCanceled) && !e.Ran
}

func (t *outcomeCounts) coverage() coverage {
	return coverage{
		asked: t.answered + len(t.failed) + len(t.missing), answered: t.answered, failed: len(t.failed),
		missing:      len(t.missing),
		failedRegion: shape.Describe(t.base, t.failed), missingRegion: shape.Describe(t.base, t.missing),
		first: t.first,
	}
}

// tooLarge is the error of an answer that does not fit into a message.
func (r request) tooLarge(size, limit int) error {
	text := fmt.Sprintf("the answer has %d bytes, a message here at most %d", size, limit)
	switch r.collect {
	case modeGather:
		text += fmt.Sprintf(": ask with %s: %s, or for a smaller %s", headerCollect, modeStream, headerRegion)
	case modeStream:
		text += fmt.Sprintf(", of which %d are for headers", headerReserve)
	case modeReduce:
		text += fmt.Sprintf(": ask for a smaller %s, or with a reducer that keeps less", headerRegion)
	}
	return &actor.Error{Code: actor.CodeTooLarge, Text: text, Ran: true}
}

// oneLine makes a text fit into a header.
func oneLine(s string, size int) string {
	return truncateText(strings.NewReplacer("\r", " ", "\n", " ").Replace(s), size)
}

// truncateText cuts a text between two runes.
func truncateText(s string, size int) string {
	const cut = "…"
	if len(s) <= size {
		return s
	}
	size -= len(cut)
	for size > 0 && !utf8.RuneStart(s[size]) {
		size--
	}
	return s[:size] + cut
}

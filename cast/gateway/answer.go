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
	"github.com/castnet-io/castnet/mesh/shape"
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

// codeDeadline is what HTTP calls a gateway that got no answer.
const codeDeadline = 504

// coverage says what became of the ranks that were asked.
type coverage struct {
	asked, answered, failed, missing int
	posted                           bool // nobody was to answer
	failedRegion, missingRegion      string
	first                            error // of the first rank that failed
}

// place is a rank in the whole mesh.
type place struct {
	rank  int
	point string
}

// placeOf finds a rank in the whole mesh.
func placeOf(base shape.Extent, rank int) place {
	p := place{rank: rank}
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

// outcome is what one message of an answer says.
type outcome struct {
	body    any
	empty   bool // there is no body, which ends a stream
	err     error
	partial bool // there is a body although there is an error
	at      *place
	cover   *coverage
}

// encoded is a body that is written down already.
type encoded []byte

// headerRoom is what a message of a stream may need besides its body.
const headerRoom = 1 << 10

// encode writes a value of a stream down if it fits: who is told that a rank has answered is to have its value.
func (r request) encode(v value, most int) (encoded, error) {
	b, err := r.format.Encode(v)
	switch {
	case err != nil:
		return nil, &actor.Error{Code: actor.CodeHandler, Text: err.Error(), Ran: true}
	case len(b) > most-headerRoom:
		return nil, r.tooLarge(len(b), most)
	}
	return b, nil
}

// message writes an outcome down.
func (r request) message(o outcome) bus.Msg {
	out := bus.Msg{Subject: r.reply, Header: bus.Header{}}
	out.Header.Set(actor.HeaderContentType, r.format.ContentType())
	if o.at != nil {
		out.Header.Set(actor.HeaderRank, strconv.Itoa(o.at.rank))
		out.Header.Set(headerPoint, o.at.point)
	}
	if o.cover != nil {
		o.cover.write(out.Header)
	}
	if raw, done := o.body.(encoded); done && o.err == nil {
		out.Data = raw
	} else if o.partial || o.err == nil && !o.empty {
		var err error
		if out.Data, err = r.format.Encode(o.body); err != nil {
			o.err, o.partial = &actor.Error{Code: actor.CodeHandler, Text: err.Error(), Ran: true}, false
		}
	}
	switch {
	case o.partial:
		out.Header.Set(headerPartial, oneLine(o.err.Error(), maxPartial))
	case o.err != nil:
		actor.FailForeign(&out, r.format, o.err)
		out.Header.Set(actor.HeaderErrorCode, strconv.Itoa(codeOf(o.err, o.cover)))
	}
	return out
}

func (c coverage) write(h bus.Header) {
	for key, n := range map[string]int{
		headerAsked: c.asked, headerAnswered: c.answered, headerFailed: c.failed, headerMissing: c.missing,
	} {
		if key != headerAnswered || !c.posted {
			h.Set(key, strconv.Itoa(n))
		}
	}
	if c.failed > 0 {
		h.Set(headerFailedRegion, bounded(c.failedRegion, maxRegion))
	}
	if c.missing > 0 {
		h.Set(headerMissingRegion, bounded(c.missingRegion, maxRegion))
	}
}

// codeOf is the number of an error: of a cast that nobody answered that of the first failure.
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

// coverageOf reads the coverage out of what a verb returned; false when it does not say.
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

// tally counts the answers of a stream.
type tally struct {
	base            shape.Extent
	answered        int
	failed, missing []int // base ranks
	first           error
}

// count takes one rank's answer, and reports whether the rank is missing.
func (t *tally) count(rank int, err error) (missing bool) {
	switch {
	case err == nil:
		t.answered++
	case silent(err):
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

// silent tells a rank that said nothing from one that said why not.
func silent(err error) bool {
	e, ok := errors.AsType[*actor.Error](err)
	return ok && (e.Code == actor.CodeDeadline || e.Code == actor.CodeCanceled) && !e.Ran
}

func (t *tally) coverage() coverage {
	return coverage{
		asked: t.answered + len(t.failed) + len(t.missing), answered: t.answered, failed: len(t.failed), missing: len(t.missing),
		failedRegion: shape.Describe(t.base, t.failed), missingRegion: shape.Describe(t.base, t.missing), first: t.first,
	}
}

// tooLarge says that an answer does not fit into a message.
func (r request) tooLarge(size, limit int) error {
	text := fmt.Sprintf("the answer has %d bytes, a message here at most %d", size, limit)
	switch r.collect {
	case gather:
		text += fmt.Sprintf(": ask with %s: %s, or for a smaller %s", headerCollect, stream, headerRegion)
	case stream:
		text += fmt.Sprintf(", of which %d are for headers", headerRoom)
	case reduce:
		text += fmt.Sprintf(": ask for a smaller %s, or with a reducer that keeps less", headerRegion)
	}
	return &actor.Error{Code: actor.CodeTooLarge, Text: text, Ran: true}
}

// oneLine is a text that fits into a header.
func oneLine(s string, size int) string {
	return bounded(strings.NewReplacer("\r", " ", "\n", " ").Replace(s), size)
}

// bounded cuts a text between two runes.
func bounded(s string, size int) string {
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

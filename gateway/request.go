package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/subjects"
)

// Headers of a request.
const (
	headerRegion  = "Castnet-Region"
	headerCollect = "Castnet-Collect"
	headerReduce  = "Castnet-Reduce"
	headerTTL     = "Castnet-TTL"
)

const headerPrefix = "Castnet-"

var knownHeaders = []string{headerCollect, headerReduce, headerRegion, headerTTL}

// Ways to collect the answers.
const (
	modeGather = "gather"
	modeStream = "stream"
	modeReduce = "reduce"
	modeSend   = "send"
	modeChoose = "choose"
)

var collectModes = []string{modeGather, modeStream, modeReduce, modeSend, modeChoose}

// request is a client's request.
type request struct {
	mesh, actor, endpoint string
	from                  subjects.Sender
	reply                 string
	format                wire.Format
	wantsStream           bool   // it asks for a stream, though it may be wrong otherwise
	region                string // "" = all
	collect               string
	reducer               string
	ttl                   time.Duration
	body                  value
	trace                 actor.Trace
	traceDest             string    // where servers report the hops of its cast; "": to their account's
	publishBy             time.Time // how long its answer may wait for a server; zero: not at all
}

// parseReplyInfo reads the fields needed for an answer, also for one that refuses the request.
func parseReplyInfo(space subjects.Space, m bus.Msg) (request, error) {
	r := request{reply: m.Reply, ttl: actor.DefaultDeadline, trace: actor.TraceIn(m.Header)}
	for key, values := range m.Header {
		if strings.EqualFold(key, headerCollect) {
			r.wantsStream = r.wantsStream ||
				slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == modeStream })
		}
	}
	format, unknown := wire.FormatOf(m.Header.Get(actor.HeaderContentType), m.Data)
	r.format = format
	s, err := space.Parse(m.Subject)
	if err != nil {
		return r, badRequest("%v", err)
	}
	r.mesh = s.MeshName
	r.actor = s.Actor
	r.endpoint = s.Endpoint
	r.from = s.Sender
	if unknown != nil {
		return r, badRequest("%v", unknown)
	}
	return r, nil
}

// parse reads a request with a deadline of at most longest. With an error it still sets the fields
// needed for an answer.
func parse(space subjects.Space, m bus.Msg, longest time.Duration) (request, error) {
	r, err := parseReplyInfo(space, m)
	if err != nil {
		return r, err
	}
	if err := r.checkRights(); err != nil {
		return r, err
	}
	if err := r.readHeaders(m.Header, longest); err != nil {
		return r, err
	}
	r.traceDest = m.Header.Get(actor.HeaderTraceDest)
	r.body, err = decodeBody(r.format, m.Data)
	if err != nil {
		return r, badRequest("%v", err)
	}
	return r, nil
}

// checkRights refuses observers: actors would take the word of the gateway for theirs (ACT-17).
func (r *request) checkRights() error {
	if r.from.Role() != subjects.Observer {
		return nil
	}
	return &actor.Error{Code: actor.CodeDenied,
		Text: "the role observer may not cast: want the role caster (castnet auth mint --role caster)"}
}

func (r *request) readHeaders(h bus.Header, longest time.Duration) error {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		ours := len(key) >= len(headerPrefix) && strings.EqualFold(key[:len(headerPrefix)], headerPrefix)
		if ours && !slices.Contains(knownHeaders, key) {
			return badRequest("unknown header %.100q: want one of %s", key, strings.Join(knownHeaders, ", "))
		}
		if (ours || key == actor.HeaderContentType) && len(h[key]) != 1 {
			return badRequest("header %s appears %d times: want it once", key, len(h[key]))
		}
	}
	r.region = strings.TrimSpace(h.Get(headerRegion))
	return errors.Join(r.readCollect(h), r.readTTL(h, longest))
}

func (r *request) readCollect(h bus.Header) error {
	_, reducing := h[headerReduce]
	_, collecting := h[headerCollect]
	r.collect = modeGather
	r.reducer = strings.TrimSpace(h.Get(headerReduce))
	if reducing {
		r.collect = modeReduce
	}
	if !collecting {
		return r.checkReducer(reducing)
	}
	r.collect = strings.TrimSpace(h.Get(headerCollect))
	switch {
	case !slices.Contains(collectModes, r.collect):
		return badRequest("%s %.100q: want one of %s", headerCollect, r.collect, strings.Join(collectModes, ", "))
	case reducing && r.collect != modeReduce:
		return badRequest("%s %s contradicts %s: want one of the two, or %s %s", headerCollect, r.collect,
			headerReduce, headerCollect, modeReduce)
	case !reducing && r.collect == modeReduce:
		return badRequest("%s %s: want the name of a reducer in %s, such as sum", headerCollect,
			modeReduce, headerReduce)
	}
	return r.checkReducer(reducing)
}

// checkReducer refuses a text that cannot name a reducer. Any other label may be declared by the
// endpoint; otherwise the ranks refuse it before a handler runs.
func (r *request) checkReducer(reducing bool) error {
	if !reducing {
		return nil
	}
	if err := cast.CheckReducer(r.reducer); err != nil {
		return badRequest("%s: %v", headerReduce, err)
	}
	return nil
}

func (r *request) readTTL(h bus.Header, longest time.Duration) error {
	if _, there := h[headerTTL]; !there {
		return nil
	}
	text := strings.TrimSpace(h.Get(headerTTL))
	ttl, err := time.ParseDuration(text)
	if err != nil || ttl <= 0 || ttl > longest {
		return badRequest("%s %.100q: want a duration of more than 0 and at most %s, such as 5s", headerTTL,
			text, longest)
	}
	r.ttl = ttl
	return nil
}

// badRequest is the error of an invalid request.
func badRequest(format string, args ...any) *actor.Error {
	return &actor.Error{Code: actor.CodeInvalid, Text: fmt.Sprintf(format, args...)}
}

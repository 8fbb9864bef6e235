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

const prefix = "Castnet-"

var known = []string{headerCollect, headerReduce, headerRegion, headerTTL}

// What becomes of the answers.
const (
	gather = "gather"
	stream = "stream"
	reduce = "reduce"
	post   = "post"
	choose = "choose"
)

var collects = []string{gather, stream, reduce, post, choose}

// request is what a client asks for.
type request struct {
	mesh, actor, endpoint string
	from, reply           string
	format                wire.Format
	streams               bool   // it asks for a stream, though it may be wrong otherwise
	region                string // "" = all
	collect               string
	reducer               string
	ttl                   time.Duration
	body                  value
	until                 time.Time // how long its answer may wait for a server; zero: not at all
}

// preface reads what an answer needs to know, also one that says what is wrong with the request.
func preface(space subjects.Space, m bus.Msg) (request, error) {
	r := request{reply: m.Reply, ttl: actor.DefaultDeadline}
	for key, values := range m.Header {
		if strings.EqualFold(key, headerCollect) {
			r.streams = r.streams || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == stream })
		}
	}
	format, unknown := wire.FormatOf(m.Header.Get(actor.HeaderContentType), m.Data)
	r.format = format
	s, err := space.Parse(m.Subject)
	if err != nil {
		return r, bad("%v", err)
	}
	r.mesh, r.actor, r.endpoint, r.from = s.MeshName, s.Actor, s.Endpoint, s.From
	if unknown != nil {
		return r, bad("%v", unknown)
	}
	return r, nil
}

// parse reads a request, whose deadline may be so long. With an error the fields that an answer needs are
// set all the same.
func parse(space subjects.Space, m bus.Msg, longest time.Duration) (request, error) {
	r, err := preface(space, m)
	if err != nil {
		return r, err
	}
	if err := r.readHeaders(m.Header, longest); err != nil {
		return r, err
	}
	if r.body, err = decodeBody(r.format, m.Data); err != nil {
		return r, bad("%v", err)
	}
	return r, nil
}

func (r *request) readHeaders(h bus.Header, longest time.Duration) error {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		ours := len(key) >= len(prefix) && strings.EqualFold(key[:len(prefix)], prefix)
		switch {
		case ours && !slices.Contains(known, key):
			return bad("header %.100q: want %s, spelled so", key, strings.Join(known, ", "))
		case (ours || key == actor.HeaderContentType) && len(h[key]) != 1:
			return bad("header %s is there %d times: want it once", key, len(h[key]))
		}
	}
	r.region = strings.TrimSpace(h.Get(headerRegion))
	return errors.Join(r.readCollect(h), r.readTTL(h, longest))
}

func (r *request) readCollect(h bus.Header) error {
	_, reducing := h[headerReduce]
	_, collecting := h[headerCollect]
	r.collect, r.reducer = gather, strings.TrimSpace(h.Get(headerReduce))
	if reducing {
		r.collect = reduce
	}
	if !collecting {
		return r.checkReducer(reducing)
	}
	r.collect = strings.TrimSpace(h.Get(headerCollect))
	switch {
	case !slices.Contains(collects, r.collect):
		return bad("%s %.100q: want one of %s", headerCollect, r.collect, strings.Join(collects, ", "))
	case reducing && r.collect != reduce:
		return bad("%s %s contradicts %s: want one of the two, or %s %s", headerCollect, r.collect, headerReduce, headerCollect, reduce)
	case !reducing && r.collect == reduce:
		return bad("%s %s: want the name of a reducer in %s, such as sum", headerCollect, reduce, headerReduce)
	}
	return r.checkReducer(reducing)
}

// checkReducer refuses what is the name of no reducer. A label that is no built-in one's may be declared by
// the endpoint: the ranks refuse it if not, before a handler runs.
func (r *request) checkReducer(reducing bool) error {
	if !reducing {
		return nil
	}
	if err := cast.CheckReducer(r.reducer); err != nil {
		return bad("%s: %v", headerReduce, err)
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
		return bad("%s %.100q: want a duration of more than 0 and at most %s, such as 5s", headerTTL, text, longest)
	}
	r.ttl = ttl
	return nil
}

// bad is what is wrong with a request.
func bad(format string, args ...any) *actor.Error {
	return &actor.Error{Code: actor.CodeInvalid, Text: fmt.Sprintf(format, args...)}
}

package cast

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

const (
	headerPrefix = "Castnet-"
	headerRegion = "Castnet-Region"
	headerTTL    = "Castnet-TTL"

	maxPlainTTL = 10 * time.Minute
)

// receivePlain hands the cast of a plain NATS client to its ranks, each of which answers by itself
// (CAST-11).
func (r *Router) receivePlain(m bus.Msg, s subjects.Subject) {
	region, ttl, err := parsePlainHeaders(r.placement.Extent, m.Header)
	for rank, to := range r.matching(s.Coords) {
		f := actor.ForeignMessage{Msg: m, From: s.Sender, Point: to.point, Rank: strconv.Itoa(rank),
			TTL: ttl, Refuse: err}
		if err == nil {
			var other error
			f.Point, other = region.PointOf(rank)
			if other != nil {
				continue // another rank is meant
			}
		}
		to.p.Foreign().Deliver(s.Actor, s.Port, f)
	}
}

// parsePlainHeaders parses a plain client's region and timeout. Without a gateway no process
// collects answers, so it refuses a cast with the other headers.
func parsePlainHeaders(e shape.Extent, h bus.Header) (region shape.Region, ttl time.Duration, err error) {
	for key, values := range h {
		switch ours := len(key) >= len(headerPrefix) && strings.EqualFold(key[:len(headerPrefix)], headerPrefix); {
		case !ours:
		case key != headerRegion && key != headerTTL:
			return region, 0, fmt.Errorf("header %.100q: want only %s and %s, or a cast through the gateway", key,
				headerRegion, headerTTL)
		case len(values) != 1:
			return region, 0, fmt.Errorf("header %s appears %d times: want it once", key, len(values))
		}
	}
	if _, there := h[headerTTL]; there {
		text := strings.TrimSpace(h.Get(headerTTL))
		ttl, err = time.ParseDuration(text)
		if err != nil || ttl <= 0 || ttl > maxPlainTTL {
			return region, 0, fmt.Errorf("%s %.100q: want a duration of more than 0 and at most %s, such as 5s",
				headerTTL, text, maxPlainTTL)
		}
	}
	text := strings.TrimSpace(h.Get(headerRegion))
	if strings.ContainsAny(text, "|&(") { // a short text may select too much for the pump
		return region, 0, fmt.Errorf("%s %.100q: want one index, range or * for each dimension", headerRegion, text)
	}
	region, err = shape.Select(e, text)
	if err != nil {
		return region, 0, fmt.Errorf("%s %.100q: %w", headerRegion, text, err)
	}
	return region, ttl, nil
}

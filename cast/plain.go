package cast

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh/shape"
	"github.com/castnet-io/castnet/subjects"
)

const (
	headerPrefix = "Castnet-"
	headerRegion = "Castnet-Region"
)

// plain hands the cast of a plain NATS client to the ranks that it means, each of which answers for itself (CAST-11).
func (r *Router) plain(m bus.Msg, s subjects.Subject) {
	region, err := regionOf(r.place.Extent, m.Header)
	for rank, to := range r.matching(s.Where) {
		if err != nil {
			to.p.RefuseForeign(m, err)
			continue
		}
		if point, err := region.PointOf(rank); err == nil { // else another rank is meant
			to.p.Foreign(s.Actor, s.Port, actor.ForeignMessage{Msg: m, From: s.From, Point: point, Rank: strconv.Itoa(rank)})
		}
	}
}

// regionOf is the part of a mesh that a plain client means. What its other headers ask for nobody does here, where no
// gateway collects: a cast that would not do what it says is refused.
func regionOf(e shape.Extent, h bus.Header) (shape.Region, error) {
	for key, values := range h {
		switch ours := len(key) >= len(headerPrefix) && strings.EqualFold(key[:len(headerPrefix)], headerPrefix); {
		case !ours:
		case key != headerRegion:
			return shape.Region{}, fmt.Errorf("header %.100q: each rank answers for itself here: want %s, spelled so, or a cast through the gateway", key, headerRegion)
		case len(values) != 1:
			return shape.Region{}, fmt.Errorf("header %s is there %d times: want it once", key, len(values))
		}
	}
	text := strings.TrimSpace(h.Get(headerRegion))
	r, err := shape.Select(e, text)
	if err != nil {
		return r, fmt.Errorf("%s %.100q: %w", headerRegion, text, err)
	}
	return r, nil
}

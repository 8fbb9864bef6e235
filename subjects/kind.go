package subjects

// Kind is the row of the table for a subject.
type Kind uint8

// The rows of the table. The zero Kind is none of them.
const (
	KindPort      Kind = iota + 1 // p: a message to one port of one actor
	KindCast                      // k: a cast
	KindFrame                     // f: many messages of one link
	KindControl                   // c: control packets
	KindHint                      // n: "no responders" hints
	KindHostRead                  // hr: requests that read from a host agent
	KindHostWrite                 // hw: requests on which a host agent acts
	KindHostEvent                 // hv: events of a host about its procs
	KindHeartbeat                 // hb: heartbeats
	KindGateway                   // cast: the gateway
	KindEvent                     // ev: events
	KindLog                       // log: log lines
	KindReply                     // r: replies to a sender
)

// String is the kind's token in a subject, "" for none.
func (k Kind) String() string {
	switch k {
	case KindPort:
		return "p"
	case KindCast:
		return "k"
	case KindFrame:
		return "f"
	case KindControl:
		return "c"
	case KindHint:
		return "n"
	case KindHostRead:
		return "hr"
	case KindHostWrite:
		return "hw"
	case KindHostEvent:
		return "hv"
	case KindHeartbeat:
		return "hb"
	case KindGateway:
		return "cast"
	case KindEvent:
		return "ev"
	case KindLog:
		return "log"
	case KindReply:
		return "r"
	}
	return ""
}

// Pattern is the kind's row of the table, without the Space, for errors.
func (k Kind) Pattern() string {
	switch k {
	case KindPort:
		return "p.<mesh>.<rank>-<gen>.<actor>.<port>.<principal>.<process>"
	case KindCast:
		return "k.<mesh>.<actor>.<port>.<where>.<principal>.<process>"
	case KindFrame:
		return "f.<mesh>.<rank>-<gen>.<principal>.<process>"
	case KindControl:
		return "c.<mesh>.<rank>-<gen>.<principal>.<process>"
	case KindHint:
		return "n.<mesh>.<rank>-<gen>.<link>"
	case KindHostRead:
		return "hr.<host>.<verb>.<principal>.<process>"
	case KindHostWrite:
		return "hw.<host>.<verb>.<principal>.<process>"
	case KindHostEvent:
		return "hv.<mesh>.<rank>-<gen>.<principal>.<process>"
	case KindHeartbeat:
		return "hb.<kind>.<principal>.<process>"
	case KindGateway:
		return "cast.<meshname>.<actor>.<endpoint>.<principal>.<process>"
	case KindEvent:
		return "ev.<kind>.<mesh>.<rank>-<gen>.<actor>.<principal>.<process>"
	case KindLog:
		return "log.<mesh>.<rank>-<gen>.<stream>.<principal>.<process>"
	case KindReply:
		return "r.<principal>.<process>.<token>"
	}
	return ""
}

// kindOf is the inverse of String.
func kindOf(token string) Kind {
	for k := KindPort; k <= KindReply; k++ {
		if token == k.String() {
			return k
		}
	}
	return 0
}

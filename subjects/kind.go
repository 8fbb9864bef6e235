package subjects

// Kind is the row of the table for a subject.
type Kind uint8

// The rows of the table. The zero Kind is none of them.
const (
	KindPort      Kind = iota + 1 // p: a message to one port of one actor
	KindCast                      // k: a cast
	KindFrame                     // f: many messages of one link
	KindControl                   // c: control packets
	KindHost                      // h: requests to a host agent
	KindGateway                   // cast: the gateway
	KindHeartbeat                 // hb: heartbeats
	KindEvent                     // ev: events
	KindLog                       // log: log lines
	KindReply                     // r: replies to foreign clients
	KindHint                      // n: "no responders" hints
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
	case KindHost:
		return "h"
	case KindGateway:
		return "cast"
	case KindHeartbeat:
		return "hb"
	case KindEvent:
		return "ev"
	case KindLog:
		return "log"
	case KindReply:
		return "r"
	case KindHint:
		return "n"
	}
	return ""
}

// Pattern is the kind's row of the table, without the Space, for errors.
func (k Kind) Pattern() string {
	switch k {
	case KindPort:
		return "p.<mesh>.<rank>-<gen>.<actor>.<port>.<from>"
	case KindCast:
		return "k.<mesh>.<actor>.<port>.<where>.<from>"
	case KindFrame:
		return "f.<process>.<from>"
	case KindControl:
		return "c.<process>.<from>"
	case KindHost:
		return "h.<host>.<verb>.<from>"
	case KindGateway:
		return "cast.<meshname>.<actor>.<endpoint>.<from>"
	case KindHeartbeat:
		return "hb.<kind>.<from>"
	case KindEvent:
		return "ev.<kind>.<mesh>.<rank>-<gen>.<actor>.<from>"
	case KindLog:
		return "log.<mesh>.<rank>-<gen>.<stream>.<from>"
	case KindReply:
		return "r.<from>.<token>"
	case KindHint:
		return "n.<process>.<link>"
	}
	return ""
}

// kindOf is the inverse of String.
func kindOf(token string) Kind {
	for k := KindPort; k <= KindHint; k++ {
		if token == k.String() {
			return k
		}
	}
	return 0
}

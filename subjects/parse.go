package subjects

import (
	"fmt"
	"strings"
)

// Subject is a parsed subject. Beyond Kind, a field is set only if the kind has
// it, as listed; From is set for all but KindHint.
type Subject struct {
	Kind    Kind
	HasRank bool      // p, log, and ev about a rank: Proc is set
	Proc    ProcID    // p, log, and ev about a rank
	Mesh    MeshID    // p, k, log, and ev about a mesh
	Process ProcessID // f, c, n

	Actor    string // p, k, cast, and ev about an actor
	Port     string // p, k
	Coords   string // k
	Host     string // h: the text of a HostID, or Any
	Verb     string // h
	MeshName string // cast
	Endpoint string // cast
	Event    string // hb, ev: the <kind> token
	Stream   string // log
	Link     string // n
	Token    string // r: 1 to 4 tokens
	From     string // the sender; in r, the receiver of the reply
}

// Scope is the object of an event.
func (s Subject) Scope() EventScope {
	return EventScope{Mesh: s.Mesh, Ranked: s.HasRank, Rank: s.Proc.Rank, Gen: s.Proc.Gen,
		Index: s.Proc.Index, Actor: s.Actor}
}

// Parse reads a literal subject of this Space (SUB-3, SUB-5).
func (s Space) Parse(subject string) (Subject, error) {
	rest, ok := strings.CutPrefix(subject, s.prefixText())
	if !ok {
		return Subject{}, &Error{What: "subject", Input: subject, Want: "one that starts with " +
			s.prefixText()}
	}
	p := parser{all: rest, rest: rest, more: true}
	out := p.subject()
	if p.err == nil && p.more {
		p.failShape()
	}
	if p.err != nil {
		return Subject{}, fmt.Errorf("subject %.*q: %w", MaxSubject, subject, p.err)
	}
	return out, nil
}

// parser eats a subject token by token. After the first error its answers mean
// nothing.
type parser struct {
	all  string // the text after the Space
	rest string // the unread text
	more bool   // a token is left
	kind Kind
	err  error
}

func (p *parser) subject() Subject {
	first := p.next()
	p.kind = kindOf(first)
	out := Subject{Kind: p.kind}
	switch p.kind {
	case KindPort:
		p.proc(&out)
		out.Actor = p.name("actor name")
		out.Port = p.port()
	case KindCast:
		out.Mesh = p.mesh()
		out.Actor = p.name("actor name")
		out.Port = p.port()
		out.Coords = p.token(isCoords, "place", wantCoords)
	case KindFrame, KindControl:
		out.Process = p.process()
	case KindHost:
		out.Host = p.token(isHost, "host", wantHost)
		out.Verb = p.label("verb")
	case KindGateway:
		out.MeshName = p.name("mesh name")
		out.Actor = p.name("actor name")
		out.Endpoint = p.label("endpoint")
	case KindHeartbeat:
		out.Event = p.label("heartbeat kind")
	case KindEvent:
		p.event(&out)
	case KindLog:
		p.proc(&out)
		out.Stream = p.label("stream")
	case KindReply:
		return p.reply(out)
	case KindHint:
		out.Process = p.process()
		out.Link = p.token(isFrom, "link", wantFrom)
		return out
	default:
		p.fail("subject kind", first, "one of p k f c h cast hb ev log r n")
		return out
	}
	out.From = p.token(isFrom, "sender", wantFrom)
	return out
}

// reply parses r.<from>.<token>, the one kind without its sender at the end.
func (p *parser) reply(out Subject) Subject {
	out.From = p.token(isFrom, "sender", wantFrom)
	out.Token = p.rest
	if !p.more || !isReplyToken(out.Token) {
		p.fail("reply token", out.Token, "1 to 4 labels joined by dots; a label is "+wantLabel)
	}
	p.more = false
	return out
}

func (p *parser) proc(out *Subject) {
	out.Mesh = p.mesh()
	p.rank(out, p.next())
}

func (p *parser) event(out *Subject) {
	out.Event = p.label("event kind")
	mesh := p.next()
	if isLabelUID(mesh) {
		out.Mesh = MeshID{mesh}
	} else if mesh != "_" {
		p.fail("mesh ID", mesh, wantUID+"; or _")
	}
	if rank := p.next(); rank != "_" {
		p.rank(out, rank)
	}
	if actor := p.next(); actor != "_" {
		out.Actor = actor
		p.check(isName, "actor name", actor, wantName+"; or _")
	}
	if mesh == "_" && (out.HasRank || out.Actor != "") {
		p.fail("mesh ID", mesh, "a mesh, since the event is about a rank or an actor")
	}
}

func (p *parser) rank(out *Subject, token string) {
	id, ok := parseRank(token, "-")
	if !ok {
		p.fail("rank", token, "rank-gen or rank-gen-index, numbers, as 12-0")
	}
	id.Mesh = out.Mesh
	out.Proc, out.HasRank = id, true
}

func (p *parser) mesh() MeshID             { return MeshID{p.token(isLabelUID, "mesh ID", wantUID)} }
func (p *parser) name(what string) string  { return p.token(isName, what, wantName) }
func (p *parser) label(what string) string { return p.token(isLabel, what, wantLabel) }
func (p *parser) port() string             { return p.token(isPort, "port", wantPort) }

func (p *parser) process() ProcessID {
	t := p.next()
	if _, ok := parseProcess(t); !ok {
		p.fail("process ID", t, "mesh_rank-gen")
	}
	return ProcessID{t}
}

func (p *parser) token(is func(string) bool, what, want string) string {
	t := p.next()
	p.check(is, what, t, want)
	return t
}

func (p *parser) check(is func(string) bool, what, t, want string) {
	if !is(t) {
		p.fail(what, t, want)
	}
}

// next takes the next token; a missing one is an error about the shape.
func (p *parser) next() (t string) {
	if !p.more {
		p.failShape()
		return ""
	}
	t, p.rest, p.more = strings.Cut(p.rest, ".")
	return t
}

// failShape reports too few or too many tokens.
func (p *parser) failShape() { p.fail("tokens", p.all, p.kind.Pattern()) }

// fail keeps the first error.
func (p *parser) fail(what, input, want string) {
	if p.err == nil {
		p.err = &Error{What: what, Input: input, Want: want}
	}
}

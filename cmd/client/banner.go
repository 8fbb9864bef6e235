package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// upRecord reports a started mesh. Its JSON names are stable.
type upRecord struct {
	Kind   string   `json:"kind"` // "up"
	Mesh   string   `json:"mesh"`
	Label  string   `json:"label"`
	Extent string   `json:"extent"`
	Ranks  int      `json:"ranks"`
	Hosts  []string `json:"hosts"`
	Actor  string   `json:"actor,omitempty"`
	Type   string   `json:"type,omitempty"`
	Owner  string   `json:"owner"`           // its controller
	Epoch  uint64   `json:"epoch,omitempty"` // of a detached mesh's owner: needed to adopt it
}

// printBanner prints the mesh with example commands.
func (h *heldMesh) printBanner(ctx context.Context) error {
	r := upRecord{
		Kind: "up", Mesh: h.procs.ID().String(), Label: h.spec.name, Extent: h.procs.Extent().String(),
		Ranks: h.procs.Extent().NumRanks(), Type: h.spec.actor, Owner: h.procs.Describe().Owner.String(), Epoch: h.handover.Epoch,
	}
	for _, host := range h.hosts {
		r.Hosts = append(r.Hosts, host.Label)
	}
	if r.Type != "" {
		r.Actor = h.actors.Name()
	}
	if h.output != asTable {
		return h.writeJSONLine(r)
	}
	lines, err := h.exampleCommands(ctx, r)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s is up: %s, %s on %s (%s)", h.paint(green, r.Mesh), r.Extent,
		pluralize(r.Ranks, "proc"), pluralize(len(r.Hosts), "host"), shorten(strings.Join(r.Hosts, ", "), 60))
	if r.Type != "" {
		fmt.Fprintf(&b, ", a %s in each", r.Type)
	}
	fmt.Fprintf(&b, "\n\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	fmt.Fprintf(&b, "\n%s\n", h.paint(grey, h.closingLine()))
	_, err = fmt.Fprint(h.stdout, b.String())
	return err
}

// closingLine names the way to end the mesh.
func (h *heldMesh) closingLine() string {
	if h.handover.Epoch == 0 {
		return "Ctrl-C stops it. Its events:"
	}
	text := fmt.Sprintf("The system controller owns it, in epoch %d: castnet adopt %s takes it back.", h.handover.Epoch, h.spec.name)
	if !h.handover.Durable {
		text += " Without JetStream it ends with the hostd that owns it."
	}
	return text
}

// exampleCommands returns command lines for another terminal of this user.
func (h *heldMesh) exampleCommands(ctx context.Context, r upRecord) ([]string, error) {
	client := strings.Join(append([]string{"castnet"}, h.connectionFlags()...), " ")
	lines := []string{client + " procs " + r.Label}
	if r.Type != "" {
		first := resolvedTarget{procs: h.procs.Select(formatPoint(h.procs.Extent(), 0)), base: h.procs.Extent()}
		first.region, _ = shape.Select(first.base, formatPoint(first.base, 0)) // a point of the mesh is a region of it
		actors, err := actorRecords(ctx, first, false)
		if err != nil {
			return nil, err
		}
		for _, a := range actors {
			if a.Actor == r.Actor {
				lines = append(lines, h.exampleRequests(client, r, a.Endpoints)...)
			}
		}
	}
	return append(lines, client+" logs "+r.Label+" -f", client+" stop "+r.Label), nil
}

// exampleRequests returns commands that call the actors on one of their endpoints.
func (h *heldMesh) exampleRequests(client string, r upRecord, endpoints []string) []string {
	if len(endpoints) == 0 {
		return nil
	}
	name, body, number := exampleMessage(endpoints)
	arg := ""
	if body != "" {
		arg = " " + shellQuote(body)
	}
	target := shellQuote(r.Label + "[" + formatPoint(h.procs.Extent(), 0) + "]")
	lines := []string{
		fmt.Sprintf("%s call %s %s %s%s", client, target, r.Type, name, arg),
		fmt.Sprintf("%s cast %s %s %s%s", client, r.Label, r.Type, name, arg),
	}
	if number {
		lines = append(lines, lines[1]+" --reduce sum")
	}
	throughGateway := fmt.Sprintf("%s req %s %s", h.natsPrefix(), h.net.Proc().Space().Gateway(r.Label, r.Type, name, subjects.Anon), shellQuote(body))
	if number {
		throughGateway += " -H Castnet-Reduce:sum"
	}
	return append(lines, throughGateway)
}

// exampleMessage picks an endpoint from descriptions such as `add(int64) int64`, with a message for
// it.
func exampleMessage(endpoints []string) (name, body string, number bool) {
	name, rest, _ := strings.Cut(endpoints[0], "(")
	in, out, _ := strings.Cut(rest, ") ")
	switch {
	case isNumber(in):
		body = "1"
	case in == "string" || in == "interface {}" || in == "any":
		body = `"hello"`
	case in == "struct {}":
	case in == "bool":
		body = "true"
	default:
		body = "{}"
	}
	return name, body, isNumber(out)
}

func isNumber(goType string) bool {
	return strings.HasPrefix(goType, "int") && !strings.HasPrefix(goType, "interface") ||
		strings.HasPrefix(goType, "uint") || strings.HasPrefix(goType, "float")
}

// connectionFlags repeats the connection flags of this command. Secrets are left to the
// environment.
func (a *app) connectionFlags() []string {
	c := a.conn
	var flags []string
	for _, f := range []struct{ name, value string }{
		{"--server", redactPassword(c.Server)}, {"--context", c.Context}, {"--creds", c.Creds}, {"--nkey", c.NKey},
		{"--user", c.User}, {"--tlscert", c.TLSCert}, {"--tlskey", c.TLSKey}, {"--tlsca", c.TLSCA},
	} {
		if f.value != "" {
			flags = append(flags, f.name, shellQuote(f.value))
		}
	}
	for _, f := range []struct{ name, value, variable string }{
		{"--password", c.Password, "NATS_PASSWORD"}, {"--token", c.Token, "NATS_TOKEN"},
	} {
		if f.value != "" {
			flags = append(flags, f.name, `"$`+f.variable+`"`)
		}
	}
	if c.Namespace != subjects.DefaultNamespace {
		flags = append(flags, "--namespace", c.Namespace)
	}
	return flags
}

// redactPassword removes passwords from a list of URLs.
func redactPassword(servers string) string {
	parts := strings.Split(servers, ",")
	for i, p := range parts {
		if u, err := url.Parse(p); err == nil && u.User != nil {
			u.User = nil
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}

// shellQuote quotes a text as one shell word.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

package heldmesh

import (
	"context"
	"fmt"
	"strings"

	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh/inspect"
	"github.com/castnet-io/castnet/subjects"
)

// Started reports a started mesh. Its JSON names are stable.
type Started struct {
	Kind   string   `json:"kind"` // "up"
	Mesh   string   `json:"mesh"`
	Label  string   `json:"label"`
	Extent string   `json:"extent"`
	Ranks  int      `json:"ranks"`
	Hosts  []string `json:"hosts"`
	Spares []string `json:"spares,omitempty"` // hosts
	Actor  string   `json:"actor,omitempty"`
	Type   string   `json:"type,omitempty"`
	Owner  string   `json:"owner"`           // its controller
	Epoch  uint64   `json:"epoch,omitempty"` // of a detached mesh's owner: needed to adopt it
}

// printBanner prints the mesh with example commands.
func (h *heldMesh) printBanner(ctx context.Context) error {
	r := Started{
		Kind: "up", Mesh: h.procs.ID().String(), Label: h.spec.name, Extent: h.procs.Extent().String(),
		Ranks: h.procs.Extent().NumRanks(), Type: h.spec.Actor, Owner: h.procs.Describe().Owner.String(),
		Epoch: h.handover.Epoch,
	}
	for _, host := range h.hosts {
		r.Hosts = append(r.Hosts, host.Label)
	}
	for _, host := range h.spec.RestartPolicy.Spares {
		r.Spares = append(r.Spares, host.Label())
	}
	if r.Type != "" {
		r.Actor = h.actors.Name()
	}
	if h.Format != output.Table {
		return h.WriteJSONLine(r)
	}
	lines, err := h.exampleCommands(ctx, r)
	if err != nil {
		return err
	}
	return showBanner(h.Printer, r, lines, h.closingLine())
}

// showBanner prints a started mesh, example commands for it, and how it ends.
func showBanner(out *output.Printer, r Started, examples []string, closing string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is up: %s, %s on %s (%s)", out.Paint(output.Green, r.Mesh), r.Extent,
		text.Pluralize(r.Ranks, "proc"), text.Pluralize(len(r.Hosts), "host"),
		text.Shorten(strings.Join(r.Hosts, ", "), 60))
	if r.Type != "" {
		fmt.Fprintf(&b, ", actor %s in each", r.Type)
	}
	if len(r.Spares) > 0 {
		fmt.Fprintf(&b, ", %s (%s)", text.Pluralize(len(r.Spares), "spare host"),
			text.Shorten(strings.Join(r.Spares, ", "), 60))
	}
	fmt.Fprintf(&b, "\n\n")
	for _, l := range examples {
		fmt.Fprintf(&b, "  %s\n", l)
	}
	fmt.Fprintf(&b, "\n%s\n", out.Paint(output.Grey, closing))
	_, err := fmt.Fprint(out.Stdout, b.String())
	return err
}

// closingLine names the way to end the mesh.
func (h *heldMesh) closingLine() string {
	if h.handover.Epoch == 0 {
		return "Ctrl-C stops it. Its events:"
	}
	text := fmt.Sprintf(
		"The system controller owns it, in epoch %d: castnet adopt %s takes it back.", h.handover.Epoch,
		h.spec.name,
	)
	if !h.handover.Durable {
		text += " Without JetStream it ends with the hostd that owns it."
	}
	return text
}

// exampleCommands returns command lines for another terminal of this user.
func (h *heldMesh) exampleCommands(ctx context.Context, r Started) ([]string, error) {
	client := strings.Join(append([]string{"castnet"}, h.ConnectionFlags()...), " ")
	lines := []string{client + " procs " + r.Label}
	if r.Type != "" {
		first := h.procs.Select(inspect.Point(h.procs.Extent(), 0))
		actors, err := inspect.Actors(ctx, first, false)
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
func (h *heldMesh) exampleRequests(client string, r Started, endpoints []string) []string {
	if len(endpoints) == 0 {
		return nil
	}
	name, body, number := exampleMessage(endpoints)
	arg := ""
	if body != "" {
		arg = " " + text.ShellQuote(body)
	}
	target := text.ShellQuote(r.Label + "[" + inspect.Point(h.procs.Extent(), 0) + "]")
	lines := []string{
		fmt.Sprintf("%s call %s %s %s%s", client, target, r.Type, name, arg),
		fmt.Sprintf("%s cast %s %s %s%s", client, r.Label, r.Type, name, arg),
	}
	if number {
		lines = append(lines, lines[1]+" --reduce sum")
	}
	throughGateway := fmt.Sprintf(
		"%s req %s %s", h.NatsPrefix(), h.net.Proc().Space().Gateway(r.Label, r.Type, name, subjects.Anon()),
		text.ShellQuote(body),
	)
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

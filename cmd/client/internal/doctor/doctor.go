package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/signin"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

// Results of a check.
const (
	ResultOK   = "ok"
	ResultWarn = "warn"
	ResultFail = "FAIL"
)

// Finding is the result of a check. Its JSON names are stable.
type Finding struct {
	Check      string `json:"check"`
	Result     string `json:"result"`
	Found      string `json:"found"`
	Suggestion string `json:"suggestion,omitempty"`

	partial bool // failed for a part of its objects
}

// checkTimeout bounds one check.
const checkTimeout = 5 * time.Second

// doctor is one run of the checks. It has its own bus, because a client with too few permissions
// cannot join.
type doctor struct {
	app      *app.App
	options  mesh.Options
	space    subjects.Space
	self     subjects.User // as it signs in
	bus      *bus.Bus
	bar      *output.Progress
	findings []Finding
	durable  bool // the system controller has said that it uses JetStream
}

func Run(ctx context.Context, a *app.App) error {
	o, err := a.MeshOptions()
	if err != nil {
		return err
	}
	space, err := subjects.NewSpace(o.Root, o.Namespace)
	if err != nil {
		return err
	}
	id, err := subjects.NewMeshID("doctor")
	if err != nil {
		return err
	}
	o.Log = zerolog.Nop() // findings show refusals
	o.Bus.Log = o.Log
	o.Bus.Name = "doctor"
	wanted := cmp.Or(o.Principal, subjects.UserPrincipal(subjects.Operator, ""))
	process := subjects.ProcID{Mesh: id}.Process()
	self := subjects.User{Principal: signin.Speaker(*o.Bus, wanted), Process: process}
	limited, cancel := context.WithTimeout(ctx, a.Conn.Timeout)
	defer cancel()
	d := &doctor{app: a, options: o, space: space, self: self, bar: a.NewProgress()}
	defer d.bar.Clear()
	if err := a.OrInterrupted(ctx, d.run(limited)); err != nil {
		return err
	}
	return d.finish()
}

// run runs the checks. It returns errors of the output, or an interrupt.
func (d *doctor) run(ctx context.Context) (err error) {
	d.bar.Message("connecting")
	signed, err := signin.As(*d.options.Bus, d.space, d.self)
	if err != nil {
		return err
	}
	d.bus, err = bus.Open(ctx, signed)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return d.report(
			Finding{
				Check: "connection", Result: ResultFail, Found: d.app.SuggestHostd(err).Error(),
				Suggestion: connectTodo(err),
			},
		)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = d.bus.Close(last) // findings show the state of the bus
	}()
	role := d.self.Principal.Role()
	casts, looks := role != subjects.Observer, role != subjects.Caster
	var census *heartbeatListener
	if looks {
		census = d.listenHeartbeats()
		defer census.close()
	}
	checks := []struct {
		name string
		look func(context.Context) Finding
		may  bool // whether this role may
	}{
		{"connection", d.connection, true}, {"role", d.role, true}, {"permissions", d.permissions, true},
		{"listeners", d.listeners, looks}, {"gateways", d.gateways, casts}, {"system", d.system, looks},
		{"jetstream", d.jetStream, looks}, // which is judged by what the system controller has
	}
	for _, c := range checks {
		if !c.may {
			continue
		}
		if err := d.check(ctx, c.name, c.look); err != nil {
			return err
		}
	}
	if !looks {
		return interrupted(ctx)
	}
	d.bar.Message("asking the hosts")
	seen := census.collect(ctx)
	for _, f := range []Finding{seen.hosts(), seen.versions(), seen.clocks(), seen.logs()} {
		if err := d.report(f); err != nil {
			return err
		}
	}
	return interrupted(ctx)
}

// interrupted returns the error of a cancelled context. A timeout is part of the findings.
func interrupted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return nil
}

// check runs one check within its timeout and reports the finding.
func (d *doctor) check(ctx context.Context, name string, look func(context.Context) Finding) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	d.bar.Message("checking " + name)
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f := look(ctx)
	f.Check = name
	return d.report(f)
}

// report prints a finding at once, unless the output is one document.
func (d *doctor) report(f Finding) error {
	d.findings = append(d.findings, f)
	d.bar.Clear()
	switch a := d.app; a.Format {
	case output.JSON:
		return nil
	case output.NDJSON:
		return a.WriteJSONLine(f)
	default:
		line := fmt.Sprintf(
			"%s  %-11s  %s", a.Paint(resultColour(f.Result), fmt.Sprintf("%-4s", f.Result)), f.Check, f.Found,
		)
		if f.Suggestion != "" {
			line += " — " + f.Suggestion
		}
		return a.Println(len("FAIL  permissions  "), line)
	}
}

func resultColour(result string) output.Colour {
	switch result {
	case ResultOK:
		return output.Green
	case ResultWarn:
		return output.Yellow
	}
	return output.Red
}

// finish ends the output. It returns an error if a check failed.
func (d *doctor) finish() error {
	if d.app.Format == output.JSON {
		if err := d.app.WriteJSON(d.findings); err != nil {
			return err
		}
	}
	failed := slices.DeleteFunc(slices.Clone(d.findings), func(f Finding) bool { return f.Result != ResultFail })
	switch len(failed) {
	case 0:
		return nil
	case 1:
		err := fmt.Errorf("doctor: %s has failed", failed[0].Check)
		if failed[0].partial {
			return cli.WithCode(cli.ExitPartial, err)
		}
		return err
	}
	return fmt.Errorf("doctor: %s have failed", text.Pluralize(len(failed), "check"))
}

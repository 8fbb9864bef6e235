package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/subjects"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the bus, the permissions and the hosts",
		Long: `Check what castnet needs. Each line has a result and, if needed, a suggestion.

  connection    the server, the time to it and back, the user, TLS
  permissions   missing permissions of this user to publish and subscribe
  listeners     clients that receive messages of others, such as nats sub '>' or a stream
  jetstream     whether worlds survive their hostd
  system        the system controller, which owns worlds
  hosts         heartbeats, slow hosts, and silent ones
  versions      versions of the client and the hosts, and whether the hosts run one program
  clocks        clock differences between the hosts and this machine

A failed check gives exit code 1, or 4 if only some hosts do not answer; a warning gives 0. The
checks send a few messages to unused subjects and end within --timeout.

JSON: check, result (ok, warn or FAIL), found, suggestion.`,
		Example: "  castnet doctor\n  castnet doctor -o json | jq '.[] | select(.result != \"ok\")'",
		Args:    wantArgs(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context()) },
	}
}

// Results of a check.
const (
	resultOK   = "ok"
	resultWarn = "warn"
	resultFail = "FAIL"
)

// finding is the result of a check. Its JSON names are stable.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Found  string `json:"found"`
	Todo   string `json:"suggestion,omitempty"`

	partial bool // failed for a part of its objects
}

// checkTimeout bounds one check.
const checkTimeout = 5 * time.Second

// doctor is one run of the checks. It has its own bus, because a client with too few permissions
// cannot join.
type doctor struct {
	app      *app
	options  mesh.Options
	space    subjects.Space
	bus      *bus.Bus
	bar      *progress
	findings []finding
}

func (a *app) doctor(ctx context.Context) error {
	o, err := a.meshOptions()
	if err != nil {
		return err
	}
	space, err := subjects.NewSpace(o.Root, o.Namespace)
	if err != nil {
		return err
	}
	o.Log = zerolog.Nop() // findings show refusals
	o.Bus.Log = o.Log
	o.Bus.Name = "doctor"
	limited, cancel := context.WithTimeout(ctx, a.conn.Timeout)
	defer cancel()
	d := &doctor{app: a, options: o, space: space, bar: a.newProgress()}
	defer d.bar.clear()
	if err := a.orInterrupted(ctx, d.run(limited)); err != nil {
		return err
	}
	return d.finish()
}

// run runs the checks. It returns errors of the output, or an interrupt.
func (d *doctor) run(ctx context.Context) (err error) {
	d.bar.message("connecting")
	d.bus, err = bus.Open(ctx, *d.options.Bus)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return d.report(finding{Check: "connection", Result: resultFail, Found: d.app.suggestHostd(err).Error(), Todo: connectTodo(err)})
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = d.bus.Close(last) // findings show the state of the bus
	}()
	census := d.listenHeartbeats()
	defer census.close()
	checks := []struct {
		name string
		look func(context.Context) finding
	}{
		{"connection", d.connection}, {"permissions", d.permissions}, {"listeners", d.listeners},
		{"jetstream", d.jetStream}, {"system", d.system},
	}
	for _, c := range checks {
		if err := d.check(ctx, c.name, c.look); err != nil {
			return err
		}
	}
	d.bar.message("asking the hosts")
	seen := census.collect(ctx)
	for _, f := range []finding{seen.hosts(), seen.versions(), seen.clocks()} {
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
func (d *doctor) check(ctx context.Context, name string, look func(context.Context) finding) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	d.bar.message("checking " + name)
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	f := look(ctx)
	f.Check = name
	return d.report(f)
}

// report prints a finding at once, unless the output is one document.
func (d *doctor) report(f finding) error {
	d.findings = append(d.findings, f)
	d.bar.clear()
	switch a := d.app; a.output {
	case asJSON:
		return nil
	case asNDJSON:
		return a.writeJSONLine(f)
	default:
		line := fmt.Sprintf("%s  %-11s  %s", a.paint(resultColour(f.Result), fmt.Sprintf("%-4s", f.Result)), f.Check, f.Found)
		if f.Todo != "" {
			line += " — " + f.Todo
		}
		_, err := fmt.Fprintln(a.stdout, line)
		return err
	}
}

func resultColour(result string) colour {
	switch result {
	case resultOK:
		return green
	case resultWarn:
		return yellow
	}
	return red
}

// finish ends the output. It returns an error if a check failed.
func (d *doctor) finish() error {
	if d.app.output == asJSON {
		if err := d.app.writeJSON(d.findings); err != nil {
			return err
		}
	}
	failed := slices.DeleteFunc(slices.Clone(d.findings), func(f finding) bool { return f.Result != resultFail })
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
	return fmt.Errorf("doctor: %s have failed", pluralize(len(failed), "check"))
}

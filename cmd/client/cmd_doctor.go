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
		Long: `Check what castnet needs, a line for each: whether it is there, and what to do when it is not.

  connection    the server, the time to it and back, the user, TLS
  permissions   what this user may not publish or subscribe to, and castnet needs
  listeners     who hears messages that are not for them, such as nats sub '>' or a stream
  jetstream     whether worlds survive
  system        the system controller, which owns worlds
  hosts         who beats, who answers, who is slow; who is expected, and silent
  versions      of the client and the hosts, and whether the hosts run one program
  clocks        how far those of the hosts are from this one

A warning is something to know; what fails has to be mended, and makes the exit code 1, or 4 when
that is only that some hosts do not answer. It sends a few messages that nobody listens to, and takes --timeout at most.

JSON: check, result (ok, warn or FAIL), found, todo.`,
		Example: "  client doctor\n  client doctor -o json | jq '.[] | select(.result != \"ok\")'",
		Args:    wantArgs(0, 0),
		RunE:    func(c *cobra.Command, _ []string) error { return a.doctor(c.Context()) },
	}
}

// The results of a check.
const (
	wellResult = "ok"
	warnResult = "warn"
	failResult = "FAIL"
)

// finding is what a check found; its JSON names are stable.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Found  string `json:"found"`
	Todo   string `json:"todo,omitempty"`

	partial bool // it failed for some of those it is about
}

// checkWithin is how long one check may take at most.
const checkWithin = 5 * time.Second

// doctor is one run of the checks, over a bus of its own: a client whose permissions are short could not even join.
type doctor struct {
	a     *app
	o     mesh.Options
	space subjects.Space
	b     *bus.Bus
	bar   *progress
	found []finding
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
	o.Log = zerolog.Nop() // what is refused is in the findings
	o.Bus.Log, o.Bus.Name = o.Log, "doctor"
	limited, cancel := context.WithTimeout(ctx, a.conn.Timeout)
	defer cancel()
	d := &doctor{a: a, o: o, space: space, bar: a.newProgress()}
	defer d.bar.clear()
	if err := a.meaning(ctx, d.run(limited)); err != nil {
		return err
	}
	return d.verdict()
}

// run makes the checks. Its error is that the findings could not be shown, or an interrupt.
func (d *doctor) run(ctx context.Context) (err error) {
	d.bar.say("connecting")
	if d.b, err = bus.Open(ctx, *d.o.Bus); err != nil {
		if errors.Is(err, context.Canceled) {
			return err
		}
		return d.tell(finding{Check: "connection", Result: failResult, Found: d.a.hint(err).Error(), Todo: connectTodo(err)})
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = d.b.Close(last) // what is wrong with the bus is in the findings
	}()
	census := d.beginCensus()
	defer census.end()
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
	d.bar.say("asking the hosts")
	seen := census.take(ctx)
	for _, f := range []finding{seen.hosts(), seen.versions(), seen.clocks()} {
		if err := d.tell(f); err != nil {
			return err
		}
	}
	return interrupted(ctx)
}

// interrupted is the error of a context that somebody has ended; that its time is over is part of the findings.
func interrupted(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return nil
}

// check makes one check within its time, and tells what it found.
func (d *doctor) check(ctx context.Context, name string, look func(context.Context) finding) error {
	if err := interrupted(ctx); err != nil {
		return err
	}
	d.bar.say("checking " + name)
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	f := look(ctx)
	f.Check = name
	return d.tell(f)
}

// tell shows a finding as soon as it is there, but for a document.
func (d *doctor) tell(f finding) error {
	d.found = append(d.found, f)
	d.bar.clear()
	switch a := d.a; a.output {
	case asJSON:
		return nil
	case asNDJSON:
		return a.line(f)
	default:
		line := fmt.Sprintf("%s  %-11s  %s", a.paint(resultColour(f.Result), fmt.Sprintf("%-4s", f.Result)), f.Check, f.Found)
		if f.Todo != "" {
			line += " — " + f.Todo
		}
		_, err := fmt.Fprintln(a.out, line)
		return err
	}
}

func resultColour(result string) colour {
	switch result {
	case wellResult:
		return green
	case warnResult:
		return yellow
	}
	return red
}

// verdict ends the findings; its error says that something failed.
func (d *doctor) verdict() error {
	if d.a.output == asJSON {
		if err := d.a.document(d.found); err != nil {
			return err
		}
	}
	failed := slices.DeleteFunc(slices.Clone(d.found), func(f finding) bool { return f.Result != failResult })
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
	return fmt.Errorf("doctor: %s have failed", count(len(failed), "check"))
}

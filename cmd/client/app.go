package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/mesh"
)

// app is one run of the command line.
type app struct {
	conn           cli.Connection
	output         outputFormat
	logLevel       string
	configFile     string
	stdout, stderr io.Writer
	getenv         func(string) string
	outTTY, errTTY bool
	useColor       bool // on terminals only
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr *os.File, getenv func(string) string) int {
	a := &app{
		output: asTable, stdout: stdout, stderr: stderr, getenv: getenv,
		outTTY: isatty.IsTerminal(stdout.Fd()), errTTY: isatty.IsTerminal(stderr.Fd()),
	}
	a.useColor = getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	root := a.rootCommand()
	root.SetArgs(escapeNegativeNumbers(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Execute(ctx, root, stderr)
}

const overview = `castnet starts meshes, shows what runs in them, and casts work to them.

A mesh is an array of OS processes on the hosts of a NATS bus, each with actors in it.
Targets are written MESH or MESH[region]: demo, 'demo[host=0]', 'demo[host=0:2,gpu=*]'.

Flags, NATS_… variables or a NATS context choose the bus. Without them it is the bus
of the hostd on this machine. Results go to stdout, everything else to stderr. Exit codes:
0 ok, 1 failure, 2 usage, 3 not found, 4 partial, 5 timeout, 6 connection, 130 interrupted.`

const overviewExample = `  castnet up demo --per-host gpu=4        # leave it running, and in another terminal:
  castnet procs demo
  castnet call 'demo[host=0,gpu=3]' counter add 5
  castnet cast demo counter add 1
  castnet cast demo counter get --reduce sum
  castnet logs demo -f
  castnet stop demo`

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "castnet",
		Short:   "Start meshes and cast work to them",
		Long:    overview,
		Example: overviewExample,
		Version: cli.Version(),
	}
	root.SetVersionTemplate("castnet {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.VarP(&a.output, "output", "o", "format of results")
	flags.StringVar(&a.logLevel, "log-level", "error", "log level of castnet on stderr: debug, info, warn, error or disabled")
	flags.StringVar(&a.configFile, "config", "", "`FILE` with limits, such as proc.ready-timeout: 2m; the environment overrides it")
	a.conn.Flags(flags)
	formats := []string{string(asTable), string(asJSON), string(asNDJSON)}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	return groupCommand(root,
		a.upCommand(), a.spawnCommand(), a.adoptCommand(), a.meshesCommand(), a.hostsCommand(), a.procsCommand(), a.actorsCommand(),
		a.meshCommand(), a.explainCommand(), a.callCommand(), a.castCommand(), a.logsCommand(), a.stopCommand(), a.eventsCommand(), a.topCommand(), a.configCommand(),
		a.worldsCommand(), a.applyCommand(false), a.applyCommand(true), a.deleteCommand(), a.whereCommand(),
		a.doctorCommand(), a.envCommand(), a.execCommand(),
	)
}

// wantArgs refuses a wrong number of arguments and names the extra or missing ones.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > most {
			return fmt.Errorf("unexpected argument %q", args[most])
		}
		if len(args) < least {
			return fmt.Errorf("want %s", strings.Join(strings.Fields(c.Use)[1+len(args):1+least], " "))
		}
		return nil
	}
}

// groupCommand makes a command of subcommands. By itself it shows its help.
func groupCommand(c *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	c.AddCommand(commands...)
	c.Args = wantCommand
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	return c
}

// wantCommand refuses unknown subcommands. By default cobra shows the help and exits with 0.
func wantCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath())
	c.SuggestionsMinimumDistance = 2 // letters
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// withNetTimeout connects, runs do within --timeout, and disconnects.
func (a *app) withNetTimeout(ctx context.Context, do func(ctx context.Context, net *mesh.Net) error) error {
	return a.withNet(ctx, func(net *mesh.Net) error {
		ctx, cancel := context.WithTimeout(ctx, a.conn.Timeout)
		defer cancel()
		return do(ctx, net)
	})
}

// withNet connects, runs do with its own timeouts, and disconnects.
func (a *app) withNet(ctx context.Context, do func(net *mesh.Net) error) error {
	o, err := a.meshOptions()
	if err != nil {
		return err
	}
	net, err := mesh.Connect(ctx, o)
	if err != nil {
		return a.orInterrupted(ctx, a.suggestHostd(err))
	}
	return a.runAndClose(ctx, net, do)
}

// suggestHostd adds advice to the error of a missing bus.
func (a *app) suggestHostd(err error) error {
	if a.isBusMissing(err) {
		return fmt.Errorf("%w: start a hostd, or name a server with --server", err)
	}
	return err
}

// isBusMissing reports whether no bus was named and the default URL has no server, or a foreign
// one.
func (a *app) isBusMissing(err error) bool {
	e, ok := errors.AsType[*bus.ConnectError](err)
	return ok && !a.conn.IsConfigured(a.getenv) && (e.Reason == bus.NoServer || e.Reason == bus.WrongCredentials)
}

// runAndClose runs do and closes the connection, interrupted or not.
func (a *app) runAndClose(ctx context.Context, net *mesh.Net, do func(net *mesh.Net) error) error {
	err := do(net)
	if broken := net.Bus().Err(); broken != nil {
		err = cli.WithCode(cli.ExitConnection, fmt.Errorf("the bus broke: %w", broken))
	}
	err = a.orInterrupted(ctx, err)
	return errors.Join(err, net.Close(context.WithoutCancel(ctx)))
}

// orInterrupted maps all errors of an interrupt to one.
func (a *app) orInterrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return cli.WithCode(cli.ExitInterrupted, errors.New("interrupted"))
	}
	return err
}

func (a *app) meshOptions() (mesh.Options, error) {
	o, err := a.conn.Options(a.getenv)
	if err != nil {
		return mesh.Options{}, err
	}
	level, err := zerolog.ParseLevel(a.logLevel)
	if err != nil || a.logLevel == "" {
		return mesh.Options{}, cli.Usagef("--log-level %q: want debug, info, warn, error or disabled", a.logLevel)
	}
	w := zerolog.ConsoleWriter{Out: a.stderr, NoColor: !a.useColor || !a.errTTY, TimeFormat: time.TimeOnly}
	log := zerolog.New(w).Level(level).With().Timestamp().Logger()
	limits, err := a.loadConfig()
	if err != nil {
		return mesh.Options{}, err
	}
	return mesh.Options{
		Bus: &o, Namespace: a.conn.Namespace, Log: log, Config: limits,
		OnFailure: func(actor.Event) {}, // logged; the command reports its meaning
	}, nil
}

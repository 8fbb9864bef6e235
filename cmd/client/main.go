package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/cmd/internal/otlp"
	"github.com/castnet-io/castnet/internal/cli"
)

// newApp describes this process: its terminal and its environment.
func newApp(stdout, stderr *os.File, getenv func(string) string) *app.App {
	return &app.App{Getenv: getenv, Printer: &output.Printer{
		Format: output.Table, Stdout: stdout, Stderr: stderr,
		OutTTY: isatty.IsTerminal(stdout.Fd()), ErrTTY: isatty.IsTerminal(stderr.Fd()),
		UseColor: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb",
		Width:    output.TerminalWidth(stdout),
	}}
}

// run executes a command line and returns the exit code.
func run(ctx context.Context, a *app.App, args []string) int {
	root := rootCommand(a)
	root.SetArgs(flags.EscapeNegativeNumbers(args))
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	tracer, stop, err := otlp.Start(ctx, "castnet", cli.Version(), a.Getenv, func(err error) {
		fmt.Fprintf(a.Stderr, "castnet: %v\n", err)
	})
	if err != nil {
		fmt.Fprintf(a.Stderr, "Error: %v\n", err)
		return cli.ExitUsage
	}
	a.Tracer = tracer
	code := cli.Execute(ctx, root, a.Stderr)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpansTimeout)
	defer cancel()
	if err := stop(ctx); err != nil {
		fmt.Fprintf(a.Stderr, "cannot send the last spans: %v\n", err)
	}
	return code
}

// lastSpansTimeout bounds the wait for a collector at the end of a command.
const lastSpansTimeout = 5 * time.Second

const overview = `castnet starts meshes, shows what runs in them, and casts work to them.

A mesh is an array of OS processes on the hosts of a NATS bus, each with actors in it.
Targets are written MESH or MESH[region]: demo, 'demo[host=0]', 'demo[host=0:2,gpu=*]'.

Flags, NATS_… variables or a NATS context choose the bus. Without them it is the bus
of the hostd on this machine. Results go to stdout, everything else to stderr. Exit codes:
0 ok, 1 failure, 2 usage, 3 not found, 4 partial, 5 timeout, 6 connection, 130 interrupted.
Ctrl-C is the normal end of top, logs -f and events -f: they exit with 0.`

const overviewExample = `  castnet up demo --per-host gpu=4        # leave it running, and in another terminal:
  castnet procs demo
  castnet call 'demo[host=0,gpu=3]' counter add 5
  castnet cast demo counter add 1
  castnet cast demo counter get --reduce sum
  castnet logs demo -f
  castnet stop demo`

func rootCommand(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:     "castnet",
		Short:   "Start meshes and cast work to them",
		Long:    overview,
		Example: overviewExample,
		Version: cli.Version(),
	}
	root.SetVersionTemplate("castnet {{.Version}}\n")
	shared := root.PersistentFlags()
	shared.VarP(&a.Format, "output", "o", "format of results")
	shared.StringVar(
		&a.LogLevel, "log-level", "error", "log level of castnet on stderr: debug, info, warn, error or disabled",
	)
	shared.StringVar(
		&a.ConfigFile, "config", "",
		"`FILE` with limits, such as proc.ready-timeout: 2m; the environment overrides it",
	)
	a.Conn.Flags(shared)
	formats := []string{string(output.Table), string(output.JSON), string(output.NDJSON)}
	_ = root.RegisterFlagCompletionFunc(
		"output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp),
	)
	root.SetHelpCommand(helpCommand())
	return flags.GroupCommand(root,
		upCommand(a), spawnCommand(a), adoptCommand(a), meshesCommand(a), hostsCommand(a), procsCommand(a),
		actorsCommand(a), typesCommand(a), meshCommand(a), explainCommand(a), callCommand(a), castCommand(a),
		logsCommand(a), waitCommand(a), growCommand(a), shrinkCommand(a), stopCommand(a),
		eventsCommand(a), topCommand(a), metricsCommand(a), uiCommand(a), mcpCommand(a),
		stackCommand(a), profileCommand(a), configCommand(a),
		worldsCommand(a), applyCommand(a, false), applyCommand(a, true), deleteCommand(a), whereCommand(a),
		doctorCommand(a), authCommand(a),
		envCommand(a), execCommand(a), versionCommand(a),
	)
}

func versionCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this command", Args: flags.WantArgs(0, 0),
		Long: "Show the version of this command. `castnet hosts` has those of the hosts.\n\nJSON: version.",
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
			}{cli.Version()}
			if written, err := a.WriteDocument(v); written {
				return err
			}
			_, err := fmt.Fprintln(a.Stdout, "castnet", v.Version)
			return err
		},
	}
}

// helpCommand is the help of cobra, but an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(c *cobra.Command, args []string) error {
			of, rest, err := c.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = fmt.Errorf("unknown command %q for %q", rest[0], of.CommandPath())
			}
			if err != nil {
				return cli.Usagef("help: %w", err)
			}
			return of.Help()
		},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, newApp(os.Stdout, os.Stderr, os.Getenv), os.Args[1:]))
}

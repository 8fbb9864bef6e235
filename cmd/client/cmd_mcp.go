package main

import (
	"context"
	"io"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/flags"
	"github.com/castnet-io/castnet/cmd/client/internal/mcpserver"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
	"github.com/castnet-io/castnet/internal/cli"
)

func mcpCommand(a *app.App) *cobra.Command {
	var act bool
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve these commands as tools to an AI agent (MCP)",
		Long: `Serve commands as tools of the Model Context Protocol, on stdin and stdout, until stdin ends. The
program of an agent starts this command; docs/mcp.md has its configuration.

The tools read: hosts, meshes, procs, actors, types, mesh_show, explain, failures, events, logs, metrics,
stack, worlds, doctor, top. With --act there are also call, cast, spawn, stop, restart, grow, shrink,
cordon, uncordon and drain. Each call connects to the bus with the flags and the environment of this
command, so it has their rights.

A result is the JSON of the command, cut to 48 KiB.`,
		Example: "  castnet mcp\n  castnet mcp --act --context staging",
		Args:    flags.WantArgs(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Conn.TokenFile == "-" {
				return cli.Usagef("--token-file -: standard input belongs to the client of mcp: " +
					"want a file, or NATS_TOKEN")
			}
			if _, err := a.MeshOptions(); err != nil {
				return err // at once, not in each call
			}
			return serveMCP(c, a, act)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.Flags().BoolVar(&act, "act", false, "also tools that change something")
	return c
}

func serveMCP(c *cobra.Command, a *app.App, act bool) error {
	in := c.InOrStdin()
	if f, ok := in.(interface{ Fd() uintptr }); ok && isatty.IsTerminal(f.Fd()) {
		a.Notef("mcp talks JSON to a program: docs/mcp.md has the configuration of agents; Ctrl-D ends it")
	}
	help := rootCommand(&app.App{Printer: &output.Printer{}})
	return mcpserver.Serve(c.Context(), io.NopCloser(in), openWriter{a.Stdout}, mcpserver.Options{
		Run: func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
			return runTool(ctx, a, args, stdout, stderr)
		},
		Returns: func(command []string) string { return jsonHelp(help, command) },
		Act:     act, Version: cli.Version(),
	})
}

// openWriter stays open: stdout belongs to the process.
type openWriter struct{ io.Writer }

func (openWriter) Close() error { return nil }

// runTool runs a command line with the connection of another command. It prints JSON.
func runTool(ctx context.Context, of *app.App, args []string, stdout, stderr io.Writer) int {
	a := &app.App{Getenv: of.Getenv, Printer: &output.Printer{Stdout: stdout, Stderr: stderr}}
	root := rootCommand(a) // sets the defaults of flags
	a.Conn = of.Conn
	a.LogLevel = of.LogLevel
	a.ConfigFile = of.ConfigFile
	a.Format = output.JSON
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return cli.Execute(ctx, root, stderr)
}

// jsonHelp is the part of a command's help about its JSON, without that about other formats.
func jsonHelp(root *cobra.Command, command []string) string {
	c, _, err := root.Find(command)
	if err != nil {
		return ""
	}
	for paragraph := range strings.SplitSeq(c.Long, "\n\n") {
		head, text, ok := strings.Cut(strings.Join(strings.Fields(paragraph), " "), ": ")
		if !ok || head != "JSON" && head != "JSON and NDJSON" {
			continue
		}
		for _, other := range []string{" NDJSON:", "; with --follow", "; without --detach"} {
			text, _, _ = strings.Cut(text, other)
		}
		return text
	}
	return ""
}

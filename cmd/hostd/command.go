package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/castnet-io/castnet/internal/cli"
)

const long = `hostd makes this machine a castnet host: it launches procs as OS processes
when programs ask for them, watches them, and stops them.

Without flags it is a whole system on one node: it runs a NATS server of its
own on 127.0.0.1:4222 (or any free port), writes URL and token where other
programs of this user find them, and runs every program that this user owns.

With --nats, or NATS_URL in the environment, it joins that bus. It then
runs only the built-in actors and the programs that --allow names.

SIGTERM or Ctrl-C drains: procs are stopped, each after the work it has
accepted, or killed after terminate.grace (10s), then hostd ends. A second
one ends hostd and its procs at once.
SIGUSR2 makes it a lame duck: it takes no new procs, waits until its procs have
ended by themselves, and then drains.
SIGUSR1 ends it and leaves the procs of kept meshes to the next hostd with its
--state-dir; it stops the others first.`

const examples = `  # A whole system on this machine
  hostd

  # One node of several: a server for the others, then the others. The first prints the fingerprint
  hostd --listen 0.0.0.0:4222 --tls --token-file token --label a
  hostd --nats tls://a:4222 --tls-fingerprint sha256:… --token-file token --label b --allow /opt/trainer

  # On a NATS server that is there already, with its credentials
  hostd --nats nats://nats.example:4222 --creds host.creds

  # Accounts, clusters, leaf nodes: whatever a nats-server can be configured to do
  hostd --nats-config nats.conf --data /var/lib/castnet

  # A host of the world that castnet apply -f world.yaml declares
  hostd --nats nats://a:4222 --world train --host-rank 3

  # A host that a running mesh grows by: castnet grow train --invite n09 --out n09.invite makes the file
  hostd --nats nats://a:4222 --label n09 --join-mesh n09.invite

  # In a rack of many: labels to select hosts by, and health probes
  hostd --nats nats://a:4222 --host-label zone=a --host-label disk=nvme --http :8222`

// flags are the values of the command line.
type flags struct {
	conn cli.Connection

	listen, natsConfig, data string
	stateDir, systemCreds    string

	label, logDir, http string
	hostLabels          []string
	lameDuckTimeout     time.Duration
	allow               []string
	procUser            string
	procLimits          string
	allowExec, uiAct    bool
	ready               time.Duration
	readySet            bool
	configFile          string
	showConfig          bool
	gateway             bool
	worldFlags
	joinMesh string
	tlsFlags
	authFlags
	logLevel, logFormat string
}

func newRoot(getenv func(string) string, stderr io.Writer) *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:     "hostd [flags]",
		Short:   "A castnet host",
		Long:    long,
		Example: examples,
		Version: cli.Version(),
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.readySet = cmd.Flags().Changed("ready-timeout")
			f.recordSet(cmd.Flags())
			c, err := f.newConfig(getenv)
			if err != nil {
				return err
			}
			if f.showConfig {
				return cli.WriteConfig(cmd.OutOrStdout(), c.keys.Entries(), false)
			}
			return runNode(cmd.Context(), c, getenv, stderr)
		},
	}
	root.SetVersionTemplate("hostd {{.Version}}\n")
	fs := root.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.conn.Server, "nats", "", "join the bus at this NATS `URL` instead of running a server")
	fs.StringVar(&f.listen, "listen", "",
		"listen address of its own server, as `HOST:PORT` (default 127.0.0.1:4222, or any free port)")
	fs.StringVar(&f.natsConfig, "nats-config", "", "nats-server configuration `FILE` of its own server")
	fs.StringVar(&f.data, "data", "", "enable JetStream in its own server, and store in `DIR`")
	f.tlsFlags.register(fs)
	fs.StringVar(&f.label, "label", "", "unique `NAME` of this host (default the first part of the hostname)")
	fs.StringArrayVar(&f.hostLabels, "host-label", nil,
		"label to select this host by, as `KEY=VALUE`; may be repeated")
	fs.StringArrayVar(&f.allow, "allow", nil,
		"program, or directory of programs, that may run here, as `PATH`; may be repeated. With arguments, as "+
			"'/usr/bin/python3 -I /opt/train.py', only commands that begin with these")
	fs.StringVar(&f.procUser, "proc-user", "",
		"run procs as this `USER`[:GROUP] of the machine (default the user of hostd, who must be root)")
	fs.StringVar(&f.procLimits, "proc-limits", "",
		"limits of each proc and of what it starts, as `files=N,processes=N,address-space=SIZE`, any of them")
	fs.BoolVar(&f.allowExec, "allow-exec", false, "allow clients to run any command as this user (castnet exec)")
	fs.StringVar(&f.logDir, "log-dir", "", "`DIR` for the output of procs, of this hostd only (default temporary)")
	fs.StringVar(&f.stateDir, "state-dir", "",
		"`DIR` to keep identity, port, token and procs for the next hostd")
	fs.StringVar(&f.systemCreds, "system-creds", "",
		"credentials `FILE` of the system account, to detect dead hosts at once")
	fs.StringVar(&f.configFile, "config", "",
		"`FILE` with limits, such as proc.ready-timeout: 2m; the environment overrides it")
	fs.BoolVar(&f.showConfig, "show-config", false, "print every limit with the source of its value, and exit")
	fs.DurationVar(&f.ready, "ready-timeout", 0, "time for a proc to get ready; overrides proc.ready-timeout")
	fs.DurationVar(&f.lameDuckTimeout, "lame-duck", 2*time.Minute,
		"time for procs to end by themselves after SIGUSR2")
	fs.StringVar(&f.http, "http", "",
		"serve /healthz, /readyz, /metrics and a live page at `HOST:PORT`; :PORT is on loopback (default: off)")
	fs.BoolVar(&f.uiAct, "ui-act", false, "permit casts, restarts and stops on the page of --http")
	fs.BoolVar(&f.gateway, "gateway", true, "serve casts of plain NATS clients; hosts share them")
	f.worldFlags.register(fs)
	f.authFlags.register(fs)
	fs.StringVar(&f.joinMesh, "join-mesh", "",
		"grow a running mesh by this host, with the invite in `FILE` of castnet grow --invite; - is standard input")
	fs.StringVar(&f.logLevel, "log-level", "",
		"debug, info, warn or error (default info, for procs proc.log-level)")
	fs.StringVar(&f.logFormat, "log-format", "", "console or json (default console on a terminal, else json)")
	f.conn.Flags(fs)
	fs.Lookup("ready-timeout").DefValue = "0s" // cobra hides this value: the key has the default
	fs.Lookup("server").Hidden = true          // the same as --nats
	fs.Lookup("timeout").Usage = "time to connect to one server (default 2s)"
	fs.Lookup("timeout").DefValue = "0s"
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true}) // there is one command; use --help
	root.AddCommand(newProcCommand())
	return root
}

// newProcCommand is the command line of procs with built-in actors, visible in ps. A launched proc
// does not get this far.
func newProcCommand() *cobra.Command {
	return &cobra.Command{
		Use: "proc", Short: "A proc with the built-in actors; hosts launch it", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("proc: only hosts run this command, for meshes of built-in actors")
		},
	}
}

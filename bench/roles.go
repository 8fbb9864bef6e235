package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/bench/casts"
	"github.com/castnet-io/castnet/bench/floor"
	"github.com/castnet-io/castnet/bench/local"
	"github.com/castnet-io/castnet/bench/local/lines"
	"github.com/castnet-io/castnet/bench/ours"
	"github.com/castnet-io/castnet/bench/raw"
	"github.com/castnet-io/castnet/bench/remote"
	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/presence"
	"github.com/castnet-io/castnet/subjects"
)

// The environment of a child.
const (
	roleEnv  = "CASTNET_BENCH_ROLE"
	urlEnv   = "CASTNET_BENCH_URL"
	tokenEnv = "CASTNET_BENCH_TOKEN"

	// Of one that is an end of a measurement between two processes.
	partEnv    = "CASTNET_BENCH_PART"    // which
	addressEnv = "CASTNET_BENCH_ADDRESS" // of the other, when it is the sender
	configEnv  = "CASTNET_BENCH_CONFIG"  // of the server in the process; its url is "" then

	// Of an end with peers: how many there are, and whether each has a ticket.
	peersEnv   = "CASTNET_BENCH_PEERS"
	ticketsEnv = "CASTNET_BENCH_TICKETS" // of a server: whether it takes them

	// Of one that has ranks to be cast to: which.
	sharesEnv      = "CASTNET_BENCH_SHARES"
	shareSeparator = ";"

	// Of a server: where it listens, whether it tells which connections have ended, and whether it has
	// JetStream.
	portEnv  = "CASTNET_BENCH_PORT"
	hintsEnv = "CASTNET_BENCH_HINTS"
	storeEnv = "CASTNET_BENCH_STORE"

	// Of a host that is one of several: its label.
	labelEnv = "CASTNET_BENCH_LABEL"

	// Of one that is hosts: how many.
	hostsEnv = "CASTNET_BENCH_HOSTS"
)

// The roles a child may have.
const (
	serverRole     = "server"     // the NATS server of everybody
	hostRole       = "host"       // a castnet host
	hostdRole      = "hostd"      // the same with the server in its process
	responderRole  = "responder"  // answers messages; the base of calls and casts
	starterRole    = "starter"    // connects and says so; the base of spawning
	subscriberRole = "subscriber" // subscribes, too; the base of procs that are ready
	actorsRole     = "actors"     // castnet's actors in one process
	floorRole      = "floor"      // mutexq; the floor of those
	oursRole       = "ours"       // castnet between two processes
	peersRole      = "peers"      // the same between one process and several
	rawRole        = "raw"        // plain NATS between two processes; the base of that
	ranksRole      = "ranks"      // castnet's ranks of a mesh in one process
	fanoutRole     = "fanout"     // goroutines behind one subscription; the base of casts to them
	gatewayRole    = "gateway"    // castnet's gateway in a process of its own
	naiveRole      = "naive"      // a subscription for each rank; another
	simulatedRole  = "simulated"  // castnet hosts in one process, with their procs
	systemRole     = "system"     // castnet's system controller
)

// The subjects of the baselines.
const (
	oneSubject   = "bench.one" // a request to the one responder there is
	allSubject   = "bench.all" // a message to all responders
	readySubject = "bench.ready"
)

// play is the life of a child. Those that run workloads answer what in asks; the others say one
// line on out when they are ready. All end when in does.
func play(name string, in io.Reader, out io.Writer) int {
	roles := map[string]func(in io.Reader, out io.Writer) error{
		serverRole: playServer, hostRole: playHost, hostdRole: playHostd, subscriberRole: playSubscriber,
		responderRole: playResponder, starterRole: playStarter,
		actorsRole: serve(ours.New), floorRole: serve(floor.New),
		oursRole: playPart(ours.Remote), rawRole: playPart(raw.Library), peersRole: playPart(peersOf),
		gatewayRole: playGateway, simulatedRole: playSimulated, systemRole: playSystem,
		ranksRole: playShares(casts.StartMembers), fanoutRole: playShares(casts.StartFanout),
		naiveRole: playShares(casts.StartNaive),
	}
	role, ok := roles[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "bench: %s=%q is no role\n", roleEnv, name)
		return 2
	}
	if err := role(in, out); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", name, err)
		return 1
	}
	return 0
}

// serve is a role that runs workloads.
func serve(makeSystem local.Maker) func(in io.Reader, out io.Writer) error {
	return func(in io.Reader, out io.Writer) error { return local.Serve(in, out, makeSystem) }
}

// playPart is a role that is one end of a measurement between two processes.
func playPart(library func(server.Options) remote.Library) func(in io.Reader, out io.Writer) error {
	return func(in io.Reader, out io.Writer) error {
		o := server.Options{URL: os.Getenv(urlEnv), Token: os.Getenv(tokenEnv), ConfigFile: os.Getenv(configEnv)}
		part := []string{os.Getenv(partEnv)}
		if address := os.Getenv(addressEnv); address != "" {
			part = append(part, address)
		}
		return remote.Play(part, in, out, library(o))
	}
}

// peersOf is castnet between one process and several.
func peersOf(o server.Options) remote.Library {
	n, _ := strconv.Atoi(os.Getenv(peersEnv)) // the sender learns it from the address
	return ours.Peers(o, n, os.Getenv(ticketsEnv) != "")
}

// playShares is a role that has the ranks of one share, or of several.
func playShares[R closer](start shareStarter[R]) func(in io.Reader, out io.Writer) error {
	return func(in io.Reader, out io.Writer) error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		srv, err := server.Open(ctx, server.Options{URL: os.Getenv(urlEnv), Token: os.Getenv(tokenEnv)})
		if err != nil {
			return err
		}
		defer srv.Close()
		all, err := startShares(ctx, srv, start)
		if err == nil {
			err = untilEnd(in, out, "ready")
		}
		ctx, cancel = context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, ranks := range all {
			err = errors.Join(err, ranks.Close(ctx))
		}
		return err
	}
}

type (
	closer                 interface{ Close(context.Context) error }
	shareStarter[R closer] func(context.Context, *server.Server, casts.Share) (R, error)
)

// startShares starts the ranks of the shares in the environment. It returns those that it has
// started, also with an error.
func startShares[R closer](ctx context.Context, srv *server.Server, start shareStarter[R]) (all []R, err error) {
	for text := range strings.SplitSeq(os.Getenv(sharesEnv), shareSeparator) {
		s, err := casts.ParseShare(text)
		if err != nil {
			return all, err
		}
		ranks, err := start(ctx, srv, s)
		if err != nil {
			return all, err
		}
		all = append(all, ranks)
	}
	return all, nil
}

// untilEnd says that the role is ready and waits for the end of in. Meanwhile it can be asked what
// it has used.
func untilEnd(in io.Reader, out io.Writer, line string) error {
	if _, err := fmt.Fprintln(out, line); err != nil {
		return err
	}
	return lines.Serve(in, out, remote.AnswerUsage)
}

func playServer(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	port, _ := strconv.Atoi(os.Getenv(portEnv)) // "" is any
	srv, err := embed.Start(ctx, embed.Options{Port: port, Token: os.Getenv(tokenEnv),
		Tickets: os.Getenv(ticketsEnv) != "", JetStream: os.Getenv(storeEnv) != "", Log: server.Log()})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	if os.Getenv(hintsEnv) != "" {
		b, err := relayEnds(ctx, srv)
		if err != nil {
			return err
		}
		defer func() { _ = b.Close(context.Background()) }() // the server is about to end
	}
	return untilEnd(in, out, srv.URL())
}

// relayEnds tells those who watch hosts which connections have ended, as hostd does.
func relayEnds(ctx context.Context, srv *embed.Server) (*bus.Bus, error) {
	if err := srv.ExportDisconnects(); err != nil {
		return nil, err
	}
	b, err := bus.Open(ctx, bus.Options{Server: srv, Token: os.Getenv(tokenEnv), Name: "bench-relay",
		Log: server.Log()})
	if err != nil {
		return nil, err
	}
	id, err := subjects.NewHostID("relay")
	if err == nil {
		err = presence.RelayDisconnects(presence.RelayConfig{From: b.Control(), To: b.Control(),
			Sender: subjects.NewSender(subjects.Host.Principal("relay"), id.Proc().Process()), Log: server.Log()})
	}
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

func playHost(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	b, err := bus.Open(ctx, busOptions("bench-host"))
	if err != nil {
		return err
	}
	return playHostOn(ctx, b, agent.BusSettings{URL: os.Getenv(urlEnv), Token: os.Getenv(tokenEnv)},
		func(h *host.Host) error {
			return untilEnd(in, out, h.ID().String())
		})
}

// playHostOn is a host on a bus, which it closes, for as long as serve takes.
func playHostOn(ctx context.Context, b *bus.Bus, settings agent.BusSettings,
	serve func(*host.Host) error) error {
	h, err := host.Start(ctx, host.Options{Label: cmp.Or(os.Getenv(labelEnv), "bench"), Bus: b,
		Log: server.Log(), Settings: settings})
	if err != nil {
		return errors.Join(err, b.Close(ctx))
	}
	err = serve(h)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(err, h.Close(ctx), b.Close(ctx))
}

// playResponder sends each message back where its reply subject says.
func playResponder(in io.Reader, out io.Writer) error {
	nc, err := rawConnect(os.Getenv(urlEnv), os.Getenv(tokenEnv))
	if err != nil {
		return err
	}
	defer nc.Close()
	for _, subject := range []string{oneSubject, allSubject} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
			if err := m.Respond(m.Data); err != nil {
				fmt.Fprintf(os.Stderr, "bench: respond: %v\n", err)
			}
		}); err != nil {
			return err
		}
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	return untilEnd(in, out, "ready")
}

// playStarter says on the bus, not on its stdout, that it is ready.
func playStarter(in io.Reader, out io.Writer) error {
	nc, err := rawConnect(os.Getenv(urlEnv), os.Getenv(tokenEnv))
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.Publish(readySubject, nil); err != nil {
		return err
	}
	if err := nc.Flush(); err != nil {
		return err
	}
	return untilEnd(in, out, "ready")
}

// rawConnect is how a program without castnet would connect.
func rawConnect(url, token string) (*nats.Conn, error) {
	nc, err := nats.Connect(url, nats.Token(token))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	return nc, nil
}

func busOptions(name string) bus.Options {
	return bus.Options{URL: os.Getenv(urlEnv), Token: os.Getenv(tokenEnv), Name: name, Log: server.Log()}
}

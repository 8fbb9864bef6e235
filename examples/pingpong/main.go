package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent/host"
	"github.com/castnet-io/castnet/agent/proc"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/examples/status"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
)

// Type and endpoints of a player.
var (
	player = actor.NewType[*Player, actor.None]("player")
	serve  = actor.NewEndpoint[*Player, Match, actor.None]("serve")
	hit    = actor.NewEndpoint[*Player, Ball, actor.None]("hit")
	hits   = actor.NewEndpoint[*Player, actor.None, int]("hits")
)

// Match is the message to all serving players.
type Match struct {
	Partners []actor.Ref[*Player] // by rank of the server
	Rounds   int                  // to the partner and back
	Over     actor.PortRef[actor.None]
}

// Ball is the message that flies to and fro.
type Ball struct {
	Left int                // hits after this one
	From actor.Ref[*Player] // the player to return it to
	Over actor.PortRef[actor.None]
}

// Player hits balls back.
type Player struct{ hits int }

func newPlayer(*actor.Context, actor.None) (*Player, error) { return &Player{}, nil }

func (p *Player) serve(ctx *actor.Context, m Match) (actor.None, error) {
	return p.hit(ctx, Ball{Left: 2*m.Rounds - 1, From: m.Partners[ctx.Point().Rank()], Over: m.Over})
}

// hit returns the ball to its sender, unless it was the last hit.
func (p *Player) hit(ctx *actor.Context, b Ball) (actor.None, error) {
	p.hits++
	if b.Left == 0 {
		return actor.None{}, b.Over.Send(ctx, actor.None{})
	}
	return actor.None{}, hit.Send(ctx, b.From,
		Ball{Left: b.Left - 1, From: actor.Self[*Player](ctx), Over: b.Over})
}

func (p *Player) count(*actor.Context, actor.None) (int, error) { return p.hits, nil }

func definition() actor.Def {
	return player.Define(newPlayer, serve.Handle((*Player).serve), hit.Handle((*Player).hit),
		hits.Handle((*Player).count))
}

func main() {
	proc.Main(definition()) // a player's process never returns
	rounds := flag.Int("rounds", 5000, "round trips of each ball")
	pairs := flag.Int("pairs", 4, "balls, each between a pair of processes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := run(ctx, *pairs, *rounds, os.Stdout)
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "pingpong: interrupted")
		os.Exit(130)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pingpong: %v\n", err)
		os.Exit(1)
	}
}

// run starts two hosts, runs a match on them, and stops them.
func run(ctx context.Context, pairs, rounds int, out io.Writer) (err error) {
	if pairs < 1 || rounds < 1 {
		return fmt.Errorf("%d pairs, %d rounds: want 1 or more of each", pairs, rounds)
	}
	server, err := embed.Start(ctx, embed.Options{Token: rand.Text()})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	conn, err := mesh.Connect(ctx, mesh.Options{Server: server})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }() // stops all the rest
	hosts, err := conn.Allocate(ctx, host.LocalHosts{Label: "side"}, "table", shape.Of("host", 2))
	if err != nil {
		return err
	}
	procs, err := hosts.Spawn(ctx, "players", shape.Of("pair", pairs))
	if err != nil {
		return err
	}
	players, err := mesh.Spawn(ctx, procs, player, "player", actor.None{})
	if err != nil {
		return err
	}
	took, err := play(ctx, conn, players, rounds, out)
	if err != nil {
		return err
	}
	return report(ctx, players, rounds, took, out)
}

// play serves all balls and waits until the last one is played.
func play(ctx context.Context, conn *mesh.Net, players mesh.ActorMesh[*Player], rounds int,
	out io.Writer) (time.Duration, error) {
	pairs := players.Extent().NumRanks() / 2
	over, err := actor.OpenAccumulator(conn.Proc(), actor.Barrier(), actor.Exactly(pairs))
	if err != nil {
		return 0, err
	}
	defer over.Close()
	match := Match{Rounds: rounds, Over: over.Ref()}
	for pair := range pairs {
		match.Partners = append(match.Partners, players.At("host", 1, "pair", pair))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() { // the end of a player ends the match
		defer close(watched)
		for e, err := range players.Watch(ctx) {
			cancel(cmp.Or(err, fmt.Errorf("a player is gone: %s", e)))
		}
	}()
	defer func() { cancel(nil); <-watched }()
	began := time.Now()
	line := status.Start(out, func() string {
		n, err := cast.Reduce(ctx, players, hits, actor.None{}, cast.Sum[int]())
		if err != nil {
			return "" // the match itself reports errors
		}
		return fmt.Sprintf("ping %s pong  %s of %s round trips, %s/s", court(n), status.Count(n/2),
			status.Count(pairs*rounds),
			status.Count(int(float64(n/2)/time.Since(began).Seconds())))
	})
	defer line.Stop()
	if err := cast.Send(ctx, players.Slice("host", 0, 1), serve, match); err != nil {
		return 0, err
	}
	if _, err := over.Recv(ctx); err != nil {
		return 0, errors.Join(context.Cause(ctx), err)
	}
	return time.Since(began), nil
}

// court draws the position of a single ball after some hits.
func court(hits int) string {
	const width = 16
	at := hits % (2 * width)
	at = min(at, 2*width-1-at)
	return fmt.Sprintf("▌%*s%*s▐", at+1, "●", width-1-at, "")
}

// report prints the result. It fails for a missing or repeated hit.
func report(ctx context.Context, players mesh.ActorMesh[*Player], rounds int, took time.Duration,
	out io.Writer) error {
	counts, err := cast.Gather(ctx, players, hits, actor.None{})
	if err != nil {
		return err
	}
	for point, n := range counts.All() {
		if n != rounds {
			return fmt.Errorf("player %s has hit %d times: want %d", point, n, rounds)
		}
	}
	n := players.Extent().NumRanks() / 2 * rounds
	fmt.Fprintf(out, "%s round trips between %d processes in %.1f s: %s/s, and %d µs for each ball to the "+
		"other side and back\n",
		status.Count(n), players.Extent().NumRanks(), took.Seconds(), status.Count(int(float64(n)/took.Seconds())),
		took.Microseconds()/int64(rounds))
	fmt.Fprintf(out, "every player has hit %s times: no ball was lost, none came twice\n", status.Count(rounds))
	return nil
}

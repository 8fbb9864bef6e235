package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/failpoint"
	"github.com/castnet-io/castnet/internal/launch"
)

// adoptedProc is a recorded proc of an earlier host.
type adoptedProc struct {
	procRecord
	process  *launch.Child
	adoptErr error // why adoption failed
}

// adoptAll adopts the procs of an earlier host and kills its unrecorded ones.
func (r *execRunner) adoptAll() (all []adoptedProc) {
	if r.store != nil {
		known := r.store.loadProcs()
		r.store.restoreLeases(known)
		for _, k := range known {
			child, err := r.launcher.Adopt(k.Process)
			all = append(all, adoptedProc{k, child, err})
			failpoint.Hit("host-adopted")
		}
	}
	left, err := r.launcher.KillLeftovers()
	if err != nil {
		r.opts.Log.Error().Err(err).Msg("cannot kill all leftovers of the previous hostd")
	}
	for _, l := range left {
		r.opts.Log.Warn().Str("proc", l.Name).Int("processes", l.Processes).
			Msg("killed an orphaned process of a previous hostd")
	}
	if r.ownsLogs {
		if err := r.removeOldLogs(all); err != nil {
			r.opts.Log.Warn().Err(err).Msg("old logs stay")
		}
	}
	failpoint.Hit("host-census")
	return all
}

// adopt adds a proc of an earlier host to the table, in its own generation.
func (a *hostAgent) adopt(ctx *actor.Context, f adoptedProc) {
	id := f.Mesh.ID.String()
	log := ctx.Log().With().Stringer("of", f.procID()).Int("pid", f.Process.PID).Logger()
	ranks, err := ranksOf(f.Mesh, a.id)
	if err == nil {
		var hash string
		hash, err = f.Mesh.Fingerprint(a.id)
		if err == nil {
			_, err = a.table.Create(agent.ResourceSpec{
				ID: id, Hash: hash, Ranks: ranks, OnlyRanks: []int{f.Rank}, Gen: f.Gen, Mesh: &f.Mesh,
				Claim: f.Claim, Principal: f.Principal, Agent: a.id.Label(),
			})
		}
	}
	if err != nil { // a wrong record: no address to reach it
		log.Error().Err(err).Msg("cannot adopt a proc of the previous hostd: killing it")
		if f.process != nil {
			f.process.Terminate(killGrace)
		}
		a.store.removeProc(f.procID())
		return
	}
	command, build := a.opts.commandOf(f.Mesh, f.Rank)
	c := &child{
		id: f.procID(), mesh: f.Mesh, rank: f.Rank, program: command.Path, build: build, nonce: f.Nonce,
		ticket: f.Ticket, clientConfig: f.Config, adopted: true, launchResult: make(chan launchResult, 1),
	}
	c.config, _, err = a.opts.Config.WithClient(f.Config)
	if err != nil {
		log.Warn().Err(err).Msg("cannot decode the client's settings of an adopted proc: using the host's settings")
		c.config = a.opts.Config
	}
	a.procs.put(c)
	a.updateTable(c)
	if f.adoptErr != nil {
		log.Warn().Err(f.adoptErr).Msg("a proc of the previous hostd is gone")
		a.recordEnd(ctx, c, agent.Status{Phase: agent.Failed, Reason: lostReason(f.adoptErr)}, nil)
		return
	}
	a.leases.Renew(ctx, id, f.Lease)
	a.adoptCredentials(ctx, c)
	c.launchResult <- launchResult{f.process, nil}
	a.onLaunched(ctx, c)
	a.verifyAdopted(ctx, c)
}

// lostReason explains why a proc is gone.
func lostReason(err error) string {
	if errors.Is(err, launch.ErrOtherBoot) {
		return "the machine was restarted"
	}
	if errors.Is(err, launch.ErrGone) || errors.Is(err, launch.ErrPIDReused) {
		return "it ended while no host agent was running"
	}
	return err.Error()
}

const (
	// challengeInterval is the pause between attempts to reach an adopted proc, which may still
	// connect.
	challengeInterval = 100 * time.Millisecond
	// challengeTimeout bounds one attempt.
	challengeTimeout = 2 * time.Second
)

// verifyAdopted verifies, as a task, that the adopted process is the proc (HOST-10). Without an
// answer in time, the process is killed like a proc that is not ready in time.
func (a *hostAgent) verifyAdopted(ctx *actor.Context, c *child) {
	self := ctx.Self()
	process := c.process
	within := a.opts.readyTimeout(c.config)
	proc := agent.Of(c.id).Via(ctx.Proc())
	ctx.Go(func(work context.Context) func(*actor.Context) {
		if within > 0 {
			var cancel func()
			work, cancel = context.WithTimeout(work, within)
			defer cancel()
		}
		challenge := rand.Text()
		answer, err := requestReadopt(work, process, proc, agent.ReadoptRequest{Proc: c.id, Host: self,
			Proof: agent.Proof(c.nonce, agent.ProofReadopt, c.id, self, challenge), Challenge: challenge})
		failpoint.Hit("host-readopted")
		return func(ctx *actor.Context) {
			switch {
			case c.state.Terminal():
			case err != nil:
				c.kill("cannot verify the adopted process: " + err.Error())
			case answer.PID != process.PID():
				c.kill(fmt.Sprintf("the adopted process is not the proc, which answers from pid %d", answer.PID))
			case !agent.CheckProof(answer.Proof, c.nonce, agent.ProofAdopted, c.id, self, challenge):
				c.kill("the adopted process has not the secret of its launch")
			default:
				log := ctx.Log()
				log.Info().Stringer("of", c.id).Int("pid", answer.PID).Msg("adopted")
				a.markReady(ctx, c)
			}
		}
	})
}

// requestReadopt repeats the request until the proc itself answers, or can no longer answer.
func requestReadopt(ctx context.Context, process process, proc actor.Ref[agent.Agent],
	r agent.ReadoptRequest) (answer agent.ReadoptResponse, err error) {
	for {
		once, cancel := context.WithTimeout(ctx, challengeTimeout)
		answer, err := agent.Readopt.Call(once, proc, r)
		cancel()
		e, ok := errors.AsType[*actor.Error](err)
		if err == nil || ok && e.Code == actor.CodeHandler {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-process.Done():
			return answer, err
		case <-time.After(challengeInterval):
		}
	}
}

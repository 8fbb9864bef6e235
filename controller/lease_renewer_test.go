package controller

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/subjects"
)

func TestLeaseRenewer_oneMessagePerHostAnswersEachLease_CTL2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := agent.Claim{Epoch: 1, Owner: r.p.ID().Actor("a")},
		agent.Claim{Epoch: 2, Owner: r.p.ID().Actor("b")}
	for _, h := range r.hosts {
		for _, id := range []string{"mine", "lost"} {
			_, err := h.table.Create(agent.ResourceSpec{ID: id, Ranks: h.ranks, Mesh: &r.spec.Procs, Claim: first})
			require.NoError(t, err)
		}
		require.NoError(t, h.table.AcceptClaim("fake", "lost", second, subjects.Sender{}))
	}
	away := testproc.HostID(t, "away")
	k := NewLeaseRenewer(r.p)
	defer k.Close()
	var all sync.WaitGroup
	errs := make(chan error, 5)
	ask := func(f func() error) { all.Go(func() { errs <- f() }) }
	for i, host := range r.spec.Procs.Hosts {
		ask(func() error {
			o, err := k.renewLease(t.Context(), host, agent.Lease{ID: "mine", TTL: time.Minute, Claim: first})
			if len(o) != 1 || o[0].First != 2*i {
				return fmt.Errorf("%v %w", o, err)
			}
			return err
		})
		ask(func() error {
			_, err := k.renewLease(t.Context(), host, agent.Lease{ID: "lost", TTL: time.Minute, Claim: first})
			if f := agent.AsFenced(err); f == nil || f.Current != second {
				return fmt.Errorf("not fenced: %w", err)
			}
			return nil
		})
	}
	ask(func() error {
		if _, err := k.renewLease(t.Context(), away, agent.Lease{ID: "mine", TTL: time.Minute}); err == nil {
			return fmt.Errorf("an answer for host %s, which is away", away)
		}
		return nil
	})
	all.Wait()
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
	for _, h := range r.hosts {
		require.Equal(t, 1, h.count("renew"))
	}
}

func TestLeaseRenewer_controllersShareRenewals_CTL2(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		r.spec.Lease, r.spec.Renewer = time.Second, NewLeaseRenewer(r.p)
		defer r.spec.Renewer.Close()
		for _, name := range []string{"a", "b", "c", "d"} {
			s := r.spec
			s.Procs.ID = testproc.MeshID(t, name)
			ref, err := actor.Spawn(t.Context(), r.p, Type, name, s)
			require.NoError(t, err)
			create(t, ref)
		}
		for _, h := range r.hosts {
			h.await(t, "keepalive 1s", 12)
			require.Less(t, h.count("renew"), 12, "most of twelve leases went with others")
		}
	})
}

func TestLeaseRenewer_closedRenewerRefusesCallers_CTL2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewLeaseRenewer(nil)
		host := testproc.HostID(t, "h")
		at := k.nextRenewal(time.Minute)
		time.Sleep(time.Minute - 1)
		require.Equal(t, at, k.nextRenewal(time.Minute), "equal intervals renew at the same moment")
		time.Sleep(time.Nanosecond)
		require.Equal(t, at.Add(time.Minute), k.nextRenewal(time.Minute))
		waits := make(chan error)
		go func() {
			_, err := k.renewLease(context.Background(), host, agent.Lease{ID: "m"})
			waits <- err
		}()
		synctest.Wait()
		k.Close()
		require.ErrorIs(t, <-waits, errRenewerClosed)
		_, err := k.renewLease(t.Context(), host, agent.Lease{ID: "m"})
		require.ErrorIs(t, err, errRenewerClosed)
	})
}

func TestPoll_agentsArePolledWithoutALease_CTL4(t *testing.T) {
	testkit.Virtual(t, func(t *testing.T) {
		r := newRig(t)
		cfg := &config.Config{}
		require.NoError(t, config.SupervisionPollInterval.Override(cfg, 50*time.Millisecond))
		agent.SetConfig(r.p, cfg)
		r.spec.Lease = -1
		r.hosts[1].lost = []int{3}
		ref := r.own(t, r.spec)
		create(t, ref)
		e := testkit.Next(t, subscribe(t, r.p, ref))
		require.Equal(t, 3, e.Rank)
		require.Contains(t, e.Reason, "nobody heard")
		r.hosts[0].await(t, "keepalive 0s", 2)
	})
}

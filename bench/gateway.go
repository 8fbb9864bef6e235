package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"

	"github.com/castnet-io/castnet/bench/server"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/gateway"
)

// gatewaySubject is the cast of the rows: to actors and an endpoint of ours.
const gatewaySubject = "castnet.v1.default.cast.workers.workers.size.u-bench.x"

// gatewayFamilies are those whose rows cast through a gateway.
func gatewayFamilies() []family {
	return []family{
		{[]row{{"gateway-overhead", "us", false}}, onRig(overheadContest)},
		{[]row{{"gateway-casts-per-second", "casts/s", true}}, onRig(gatewayRateContest)},
	}
}

// overheadContest measures a cast by a plain request against the same by a program of castnet's.
func overheadContest(ctx context.Context, r *rig) (contest, error) {
	w, err := spawnWorkers(ctx, r, members)
	if err != nil {
		return nil, err
	}
	if _, err := r.start(ctx, gatewayRole); err != nil {
		return nil, err
	}
	m := payload()
	direct := func(ctx context.Context) error {
		sum, err := cast.Reduce(ctx, w, size, m, cast.Sum[int64]())
		return expect(err, int(sum), members*payloadSize)
	}
	through := r.throughGateway()
	return against("direct-cast", latency(r.samples, through, 0.5), latency(r.samples, direct, 0.5)), nil
}

// gatewayRateContest measures how many such casts a gateway does against how many requests NATS
// does.
func gatewayRateContest(ctx context.Context, r *rig) (contest, error) {
	if _, err := spawnWorkers(ctx, r, members); err != nil {
		return nil, err
	}
	if _, err := r.start(ctx, responderRole, gatewayRole); err != nil {
		return nil, err
	}
	through := r.throughGateway()
	ours := func(ctx context.Context, _ []byte) error { return through(ctx) }
	base := func(_ context.Context, m []byte) error {
		answer, err := r.raw.Request(oneSubject, m, patience)
		if err != nil {
			return err
		}
		return expect(nil, len(answer.Data), payloadSize)
	}
	return against("nats-request", castRate(r.samples, ours), castRate(r.samples, base)), nil
}

// throughGateway is a cast as a program without castnet does it.
func (r *rig) throughGateway() func(context.Context) error {
	request := func() *nats.Msg {
		m := nats.NewMsg(gatewaySubject)
		m.Header.Set("Content-Type", "application/cbor")
		m.Header.Set("Castnet-Reduce", "sum")
		m.Data = append([]byte{0x58, payloadSize}, payload()...) // a byte string
		return m
	}
	sum := []byte{0x19, members * payloadSize >> 8, members * payloadSize & 0xff}
	return func(context.Context) error {
		answer, err := r.raw.RequestMsg(request(), patience)
		if err == nil && !bytes.Equal(answer.Data, sum) {
			err = fmt.Errorf("answered with %q %q, want %q", answer.Header, answer.Data, sum)
		}
		return err
	}
}

// playGateway is a gateway in a process of its own.
func playGateway(in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o := busOptions("bench-gateway")
	g, err := gateway.Start(ctx, gateway.Options{Label: "bench", Bus: &o, Log: server.Log()})
	if err != nil {
		return err
	}
	err = untilEnd(in, out, "ready")
	ctx, cancel = context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(err, g.Close(ctx))
}

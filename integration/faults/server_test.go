package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus/embed"
)

// serverConfig configures a NATS server.
type serverConfig struct {
	Port       int // 0: any free one
	MaxPayload int // 0: as by default
	ConfigFile string
}

// serverRole is a NATS server.
type serverRole struct {
	srv  *embed.Server
	slow atomic.Int64 // clients it found too slow
}

func newServerRole(config []byte) (role, report, error) {
	var c serverConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, report{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := &serverRole{}
	log := zerolog.New(io.MultiWriter(os.Stderr, (*slowCounter)(&r.slow))).With().Timestamp().Logger()
	srv, err := embed.Start(ctx, embed.Options{Port: c.Port, MaxPayload: c.MaxPayload,
		ConfigFile: c.ConfigFile, Log: log})
	if err != nil {
		return nil, report{}, err
	}
	r.srv = srv
	return r, report{URL: srv.URL()}, nil
}

func (r *serverRole) obey(o order) (report, error) {
	if o.Do != "look" {
		return report{}, fmt.Errorf("%q is no order for a server", o.Do)
	}
	return report{Slow: int(r.slow.Load())}, nil
}

// close is graceful: the server says goodbye to its clients.
func (r *serverRole) close() error {
	r.srv.Shutdown()
	return nil
}

// slowCounter counts the log lines of a server about clients cut for slow reading.
type slowCounter atomic.Int64

func (n *slowCounter) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Slow Consumer Detected")) {
		(*atomic.Int64)(n).Add(1)
	}
	return len(line), nil
}

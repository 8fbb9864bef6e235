package server

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/embed"
)

// Options say where the server is.
type Options struct {
	URL        string // of a server elsewhere; "": one in this process, which also listens
	Token      string // what its clients show
	ConfigFile string // of a server in this process; "": none
}

// Server is a server to connect to.
type Server struct {
	o    Options
	here *embed.Server // nil: elsewhere
}

// Open starts the server, when it is to be in this process.
func Open(ctx context.Context, o Options) (*Server, error) {
	s := &Server{o: o}
	if o.URL != "" {
		return s, nil
	}
	var err error
	s.here, err = embed.Start(ctx, embed.Options{Token: o.Token, ConfigFile: o.ConfigFile, Log: Log()})
	return s, err
}

// URL is where other processes connect.
func (s *Server) URL() string {
	if s.here == nil {
		return s.o.URL
	}
	return s.here.URL()
}

// Bus is how castnet connects.
func (s *Server) Bus() bus.Options {
	o := bus.Options{URL: s.o.URL, Token: s.o.Token, Name: "bench", Log: Log()}
	if s.here != nil {
		o.Server = s.here
	}
	return o
}

// Connect is how a program without castnet would connect.
func (s *Server) Connect() (*nats.Conn, error) {
	options := []nats.Option{nats.Token(s.o.Token)}
	if s.here != nil {
		options = append(options, nats.InProcessServer(s.here))
	}
	nc, err := nats.Connect(s.URL(), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", s.URL(), err)
	}
	return nc, nil
}

// NumSubs is how many subscriptions the server in this process has.
func (s *Server) NumSubs() int { return s.here.NumSubs() }

// Close ends the server, when it is in this process.
func (s *Server) Close() {
	if s.here != nil {
		s.here.Shutdown()
	}
}

// Log is where warnings go.
func Log() zerolog.Logger {
	return zerolog.New(os.Stderr).Level(zerolog.WarnLevel).With().Timestamp().Logger()
}

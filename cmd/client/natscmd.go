package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// maxGatewayTTL is how long a gateway lets a cast take at most.
const maxGatewayTTL = 10 * time.Minute

// natsPatience is how much longer the nats command waits than the gateway, so that what is wrong comes home.
const natsPatience = 5 * time.Second

// showNatsCommand prints the nats command that makes the same cast through a gateway.
func (a *app) showNatsCommand(s castSpec) error {
	command, err := s.natsCommand(a.nats(), a.conn.Namespace)
	if err != nil {
		return err
	}
	document := struct {
		Command string `json:"command"`
	}{command}
	switch a.output {
	case asJSON:
		return a.document(document)
	case asNDJSON:
		return a.line(document)
	}
	_, err = fmt.Fprintln(a.out, command)
	return err
}

// natsCommand is the command, each argument quoted for a POSIX shell. nats is how it begins.
func (s castSpec) natsCommand(nats, namespace string) (string, error) {
	space, err := subjects.NewSpace("", namespace)
	if err != nil {
		return "", err
	}
	if err := subjects.CheckName("actor", s.actor); err != nil {
		return "", err
	}
	subject := space.Gateway(s.to.name, s.actor, s.endpoint.Name(), subjects.Anon)
	if subject == "" {
		return "", cli.Usagef("%s %s %s: no gateway subject can be made of that", s.to, s.actor, s.endpoint.Name())
	}
	body := s.body
	if strings.HasPrefix(body, "-") {
		body = " " + body // a number, and not a flag
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s req %s %s", nats, subject, shellQuote(body))
	for _, h := range s.natsHeaders() {
		fmt.Fprintf(&b, " -H %s", shellQuote(h))
	}
	ttl := s.throttle.Timeout
	fmt.Fprintf(&b, " --timeout=%s", ttl+natsPatience)
	if s.collect == collectStream {
		fmt.Fprintf(&b, " --wait-for-empty --reply-timeout=%s", max(ttl, actor.DefaultDeadline))
	}
	if strings.Contains(s.body, "{{") {
		b.WriteString(" --no-templates")
	}
	return b.String(), nil
}

// natsHeaders say what a gateway would not do by itself. Without its type JSON such as 5 could be CBOR.
func (s castSpec) natsHeaders() []string {
	headers := []string{"Content-Type:application/json"}
	add := func(name, value string) { headers = append(headers, "Castnet-"+name+":"+value) }
	if s.to.region != "" {
		add("Region", s.to.region)
	}
	switch s.collect {
	case collectReduce:
		add("Reduce", s.reducer)
	case collectGather: // as without a header
	default:
		add("Collect", s.collect)
	}
	if s.throttle.Timeout != actor.DefaultDeadline {
		add("TTL", s.throttle.Timeout.String())
	}
	return headers
}

// nats is the nats command line, told to connect as this command does. What no flag and no variable says it
// gets from `client env`.
func (a *app) nats() string {
	if !a.conn.Named(a.getenv) {
		return `eval "$(client env)" && nats`
	}
	flags := a.connectionFlags()
	if a.conn.Namespace != subjects.DefaultNamespace {
		flags = flags[:len(flags)-2] // it is in the subject
	}
	return strings.Join(append([]string{"nats"}, flags...), " ")
}

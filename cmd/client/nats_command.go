package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// maxGatewayTTL is a gateway's maximum time for a cast.
const maxGatewayTTL = 10 * time.Minute

// natsTimeoutMargin is the nats command's extra wait, so that errors of the gateway arrive.
const natsTimeoutMargin = 5 * time.Second

// showNatsCommand prints an equivalent nats command through a gateway.
func (a *app) showNatsCommand(s castSpec) error {
	command, err := s.natsCommand(a.natsPrefix(), a.conn.Namespace)
	if err != nil {
		return err
	}
	document := struct {
		Command string `json:"command"`
	}{command}
	switch a.output {
	case asJSON:
		return a.writeJSON(document)
	case asNDJSON:
		return a.writeJSONLine(document)
	}
	_, err = fmt.Fprintln(a.stdout, command)
	return err
}

// natsCommand returns the command, quoted for a POSIX shell. Argument nats is its beginning.
func (s castSpec) natsCommand(nats, namespace string) (string, error) {
	space, err := subjects.NewSpace("", namespace)
	if err != nil {
		return "", err
	}
	if err := subjects.CheckName("actor", s.actor); err != nil {
		return "", err
	}
	subject := space.Gateway(s.target.name, s.actor, s.endpoint.Name(), subjects.Anon)
	if subject == "" {
		return "", cli.Usagef("%s %s %s: want names that form a gateway subject", s.target, s.actor, s.endpoint.Name())
	}
	body := s.body
	if strings.HasPrefix(body, "-") {
		body = " " + body // a number, not a flag
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s req %s %s", nats, subject, shellQuote(body))
	for _, h := range s.natsHeaders() {
		fmt.Fprintf(&b, " -H %s", shellQuote(h))
	}
	ttl := s.throttle.Timeout
	fmt.Fprintf(&b, " --timeout=%s", ttl+natsTimeoutMargin)
	if s.collect == collectStream {
		fmt.Fprintf(&b, " --wait-for-empty --reply-timeout=%s", max(ttl, actor.DefaultDeadline))
	}
	if strings.Contains(s.body, "{{") {
		b.WriteString(" --no-templates")
	}
	return b.String(), nil
}

// natsHeaders returns headers for settings other than the gateway's defaults. JSON such as 5 needs
// its content type, because it could be CBOR.
func (s castSpec) natsHeaders() []string {
	headers := []string{"Content-Type:application/json"}
	add := func(name, value string) { headers = append(headers, "Castnet-"+name+":"+value) }
	if s.target.region != "" {
		add("Region", s.target.region)
	}
	switch s.collect {
	case collectReduce:
		add("Reduce", s.reducer)
	case collectGather: // the default
	default:
		add("Collect", s.collect)
	}
	if s.throttle.Timeout != actor.DefaultDeadline {
		add("TTL", s.throttle.Timeout.String())
	}
	return headers
}

// natsPrefix returns the nats command with the connection flags of this command. `castnet env`
// supplies settings without flag or variable.
func (a *app) natsPrefix() string {
	if !a.conn.IsConfigured(a.getenv) {
		return `eval "$(castnet env)" && nats`
	}
	flags := a.connectionFlags()
	if a.conn.Namespace != subjects.DefaultNamespace {
		flags = flags[:len(flags)-2] // part of the subject
	}
	return strings.Join(append([]string{"nats"}, flags...), " ")
}

package casting

import (
	"fmt"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/subjects"
)

// maxGatewayTTL is a gateway's maximum time for a cast.
const maxGatewayTTL = 10 * time.Minute

// natsTimeoutMargin is the nats command's extra wait, so that errors of the gateway arrive.
const natsTimeoutMargin = 5 * time.Second

// ShowNatsCommand prints an equivalent nats command through a gateway.
func ShowNatsCommand(a *app.App, s Spec) error {
	command, err := s.natsCommand(a.NatsPrefix(), a.Conn.Namespace)
	if err != nil {
		return err
	}
	document := struct {
		Command string `json:"command"`
	}{command}
	if written, err := a.WriteDocument(document); written {
		return err
	}
	_, err = fmt.Fprintln(a.Stdout, command)
	return err
}

// natsCommand returns the command, quoted for a POSIX shell. Argument nats is its beginning.
func (s Spec) natsCommand(nats, namespace string) (string, error) {
	space, err := subjects.NewSpace("", namespace)
	if err != nil {
		return "", err
	}
	if err := subjects.CheckName("actor", s.Actor); err != nil {
		return "", err
	}
	subject := space.Gateway(s.Target.Name, s.Actor, s.Endpoint.Name(), subjects.Anon())
	if subject == "" {
		return "", cli.Usagef(
			"%s %s %s: want names that form a gateway subject", s.Target, s.Actor, s.Endpoint.Name(),
		)
	}
	body := s.Body
	if strings.HasPrefix(body, "-") {
		body = " " + body // a number, not a flag
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s req %s %s", nats, subject, text.ShellQuote(body))
	for _, h := range s.natsHeaders() {
		fmt.Fprintf(&b, " -H %s", text.ShellQuote(h))
	}
	ttl := s.throttle.Timeout
	fmt.Fprintf(&b, " --timeout=%s", ttl+natsTimeoutMargin)
	if s.collect == collectStream {
		fmt.Fprintf(&b, " --wait-for-empty --reply-timeout=%s", max(ttl, actor.DefaultDeadline))
	}
	if strings.Contains(s.Body, "{{") {
		b.WriteString(" --no-templates")
	}
	return b.String(), nil
}

// natsHeaders returns headers for settings other than the gateway's defaults. JSON such as 5 needs
// its content type, because it could be CBOR.
func (s Spec) natsHeaders() []string {
	headers := []string{"Content-Type:application/json"}
	add := func(name, value string) { headers = append(headers, "Castnet-"+name+":"+value) }
	if s.Target.Region != "" {
		add("Region", s.Target.Region)
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

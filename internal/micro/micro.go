package micro

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/castnet-io/castnet/bus"
)

// Endpoint describes an endpoint of a service.
type Endpoint struct {
	Name     string            `json:"name"`
	Subject  string            `json:"subject"`
	Group    string            `json:"queue_group"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Stats are the statistics of an endpoint.
type Stats struct {
	Name           string        `json:"name"`
	Subject        string        `json:"subject"`
	Group          string        `json:"queue_group"`
	Requests       uint64        `json:"num_requests"`
	Errors         uint64        `json:"num_errors"`
	LastError      string        `json:"last_error"`
	ProcessingTime time.Duration `json:"processing_time"`
	AverageTime    time.Duration `json:"average_processing_time"`
	Data           any           `json:"data,omitempty"`
}

// Service is one instance of a service.
type Service struct {
	Name, ID    string
	Version     string // any text; other than semver becomes 0.0.0+text
	Description string
	Metadata    map[string]string

	Info  func(answer func([]Endpoint)) // calls answer, at once or later
	Stats func() []Stats
}

// Inbox is the name of the lossy Inbox for discovery requests.
const Inbox = "discovery"

// Subscriber is the part of the bus that a service needs.
type Subscriber interface {
	Subscribe(subject string, handle func(bus.Msg)) error
	Answer(bus.Msg) error // an error where this service may not publish
}

// identity is the common beginning of every answer.
type identity struct {
	Type     string            `json:"type"`
	Name     string            `json:"name"`
	ID       string            `json:"id"`
	Version  string            `json:"version"`
	Metadata map[string]string `json:"metadata"`
}

type info struct {
	identity
	Description string     `json:"description"`
	Endpoints   []Endpoint `json:"endpoints"`
}

type stats struct {
	identity
	Started   time.Time `json:"started"`
	Endpoints []Stats   `json:"endpoints"`
}

// Serve answers for a service until its subscriptions end.
func Serve(on Subscriber, s Service) error {
	if !isValidName(s.Name) || !isValidName(s.ID) {
		return fmt.Errorf("micro service %q %q: want names of letters, digits, - and _", s.Name, s.ID)
	}
	started := time.Now().UTC()
	handle := func(m bus.Msg) { s.handle(on, m, started) }
	for _, subject := range []string{"$SRV.*", "$SRV.*." + s.Name, "$SRV.*." + s.Name + "." + s.ID} {
		if err := on.Subscribe(subject, handle); err != nil {
			return fmt.Errorf("micro service %s: %w", s.Name, err)
		}
	}
	return nil
}

func (s Service) handle(on Subscriber, m bus.Msg, started time.Time) {
	if m.Reply == "" {
		return
	}
	answer := func(v any) error {
		b, err := json.Marshal(v) // texts and numbers only
		if err == nil {
			err = on.Answer(bus.Msg{Subject: m.Reply, Data: b})
		}
		return err // the requester waits for many services and misses this one
	}
	listed := func(n int, list func(n int) any) {
		for errors.Is(answer(list(n)), bus.ErrTooLarge) && n > 0 {
			n /= 2
		}
	}
	verb, _, _ := strings.Cut(strings.TrimPrefix(m.Subject, "$SRV."), ".")
	switch verb {
	case "PING":
		_ = answer(s.identity("ping"))
	case "INFO":
		s.Info(func(all []Endpoint) {
			listed(len(all), func(n int) any {
				return info{s.identity("info"), s.Description, append([]Endpoint{}, all[:n]...)}
			})
		})
	case "STATS":
		all := s.Stats()
		listed(len(all), func(n int) any {
			return stats{s.identity("stats"), started, append([]Stats{}, all[:n]...)}
		})
	}
}

func (s Service) identity(what string) identity {
	metadata := s.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return identity{"io.nats.micro.v1." + what + "_response", s.Name, s.ID, semver(s.Version), metadata}
}

// semver converts a version to a form that the protocol permits.
func semver(v string) string {
	v = strings.TrimPrefix(v, "v")
	if semverRule.MatchString(v) {
		return v
	}
	v = strings.Trim(invalidBuildChars.ReplaceAllString(v, "-"), "-")
	if v == "" {
		return "0.0.0"
	}
	return "0.0.0+" + v
}

// Rules of the protocol, quoted.
var (
	semverRule = regexp.MustCompile(
		`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
	invalidBuildChars = regexp.MustCompile(`[^0-9A-Za-z-]+`)
	nameRule          = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

func isValidName(s string) bool { return nameRule.MatchString(s) }

// Name builds an endpoint name from texts.
func Name(parts ...string) string {
	return strings.Trim(invalidNameChars.ReplaceAllString(strings.Join(parts, "-"), "-"), "-")
}

var invalidNameChars = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

package bus

import (
	"github.com/nats-io/nats.go"
)

// The header keys of the server's "no responders" answer.
const (
	statusHeader       = "Status"
	hintSubjectHeader  = "Nats-Subject"
	statusNoResponders = "503"
)

// Msg is one NATS message. A received Data belongs to the handler: nothing
// reuses it afterwards.
type Msg struct {
	Subject string
	Reply   string
	Header  Header
	Data    []byte

	// NoResponders marks the server's answer to a message without subscribers. It is a hint: any
	// client with permission on the reply subject can forge it.
	NoResponders bool
	// HintFor is the subject without subscribers, set with NoResponders.
	HintFor string
}

// Header holds NATS headers. Unlike HTTP's, keys keep their case.
type Header map[string][]string

// Get returns the first value of key, "" if there is none.
func (h Header) Get(key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces all values of key by value.
func (h Header) Set(key, value string) { h[key] = []string{value} }

// Add appends value to the values of key.
func (h Header) Add(key, value string) { h[key] = append(h[key], value) }

// size is the header's size in the server's count of the payload.
func (h Header) size() int {
	if len(h) == 0 {
		return 0
	}
	n := len("NATS/1.0\r\n") + len("\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(": ") + len(v) + len("\r\n")
		}
	}
	return n
}

// fromNATS translates a message as it came in.
func fromNATS(m *nats.Msg) Msg {
	out := Msg{Subject: m.Subject, Reply: m.Reply, Header: Header(m.Header), Data: m.Data}
	if len(m.Data) == 0 && out.Header.Get(statusHeader) == statusNoResponders {
		out.NoResponders = true
		out.HintFor = out.Header.Get(hintSubjectHeader)
	}
	return out
}

// toNATS converts an outgoing message.
func toNATS(m Msg) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: nats.Header(m.Header), Data: m.Data}
}

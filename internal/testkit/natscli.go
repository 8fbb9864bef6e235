package testkit

import (
	"regexp"
	"strings"
)

// NATSReply is a reply in the output of `nats request`.
type NATSReply struct {
	Header map[string]string
	Body   string // its first line
}

var natsHeaderLine = regexp.MustCompile(`^\d\d:\d\d:\d\d (?:([A-Za-z-]+): (.*))?$`)

// NATSReplies parses the output of `nats request`. Header lines have a time stamp, an empty one ends
// them, and the body follows.
func NATSReplies(out string) (all []NATSReply) {
	for i, text := range strings.Split(out, "Received with rtt ") {
		if i == 0 {
			continue
		}
		_, text, _ = strings.Cut(text, "\n")
		r := NATSReply{Header: map[string]string{}}
		for {
			line, rest, _ := strings.Cut(text, "\n")
			m := natsHeaderLine.FindStringSubmatch(line)
			if m == nil {
				break
			}
			if text = rest; m[1] == "" {
				break
			}
			r.Header[m[1]] = m[2]
		}
		r.Body, _, _ = strings.Cut(text, "\n")
		all = append(all, r)
	}
	return all
}

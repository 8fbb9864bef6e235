package main

import (
	"fmt"

	"github.com/castnet-io/castnet/bench/report"
)

// families are the plots of the page.
func families() []report.Family {
	return []report.Family{
		{File: "sends.svg", Title: "Sends between two processes", Rows: labels("%s", "remote-tell-%s-nats",
			"remote-tell-%s-peer", "64B", "1KiB")},
		{File: "large-sends.svg", Title: "Sends of large bodies between two processes", Rows: labels("%s",
			"remote-tell-%s-nats", "", "64KiB", "1MiB", "16MiB")},
		{File: "asks.svg", Title: "Asks between two processes, one in flight", Rows: []report.Label{
			{Text: "64 B, median", Rows: []string{"remote-ask-p50-nats"}},
			{Text: "64 B, p99", Rows: []string{"remote-ask-p99-nats"}},
			{Text: "64 KiB, median", Rows: []string{"remote-ask-64KiB-p50-nats"}},
			{Text: "1 MiB, median", Rows: []string{"remote-ask-1MiB-p50-nats"}},
			{Text: "16 MiB, median", Rows: []string{"remote-ask-16MiB-p50-nats"}},
		}},
		{File: "asks-in-flight.svg", Title: "Asks between two processes, 64 in flight", Rows: []report.Label{
			{Text: "64 B", Rows: []string{"remote-ask-64-peer"}},
		}},
		{File: "casts-reduced.svg", Title: "Casts to ranks in 8 processes, answers folded to a sum", Rows: labels("ranks: %s",
			"cast-reduce-%s", "", "1", "8", "64", "512", "4096", "100000")},
		{File: "casts-large.svg", Title: "Casts of large bodies to 64 ranks in 8 processes, answers folded to a sum",
			Rows: labels("%s", "cast-reduce-64-%s", "", "64KiB", "1MiB", "16MiB")},
		{File: "casts-gathered.svg", Title: "Casts to ranks in 8 processes, all answers gathered", Rows: labels("ranks: %s",
			"cast-gather-%s", "", "1", "8", "64", "512", "4096")},
		{File: "local.svg", Title: "Messages between actors of one process", Rows: []report.Label{
			{Text: "send 0 B", Rows: []string{"local-tell-1to1-0B", "local-tell-1to1-0B-floor"}},
			{Text: "send 64 B", Rows: []string{"local-tell-1to1-64B", "local-tell-1to1-64B-floor"}},
			{Text: "4 senders, 64 B", Rows: []string{"local-tell-4to1-64B", "local-tell-4to1-64B-floor"}},
			{Text: "ask, median", Rows: []string{"local-ask-p50", "local-ask-p50-floor"}},
			{Text: "spawn", Rows: []string{"spawn-time", "spawn-time-floor"}},
		}},
		{File: "memory.svg", Title: "Memory of actors with nothing to do", Rows: []report.Label{
			{Text: "an actor", Rows: []string{"spawn-bytes", "spawn-bytes-floor"}},
		}},
		{File: "permissions.svg", Title: "What permissions cost the server, for each publish", Rows: labels("peers: %s",
			"publish-permissions-%s", "", "1", "64", "128", "129", "512")},
	}
}

// labels are one for each size: its rows have the size in their names.
func labels(text, first, second string, sizes ...string) []report.Label {
	var all []report.Label
	for _, size := range sizes {
		l := report.Label{Text: fmt.Sprintf(text, size), Rows: []string{fmt.Sprintf(first, size)}}
		if second != "" {
			l.Rows = append(l.Rows, fmt.Sprintf(second, size))
		}
		all = append(all, l)
	}
	return all
}

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/subjects"
)

// Whatever answers the doctor costs it little.
func FuzzDoctor(f *testing.F) {
	id, err := subjects.NewHostID("host")
	if err != nil {
		f.Fatal(err)
	}
	deep := strings.Repeat(`{"":`, 9000) + "1" + strings.Repeat("}", 9000)
	for _, text := range []string{
		`{"streams":1,"limits":{"max_streams":-1},"tiers":{"R1":{"streams":1}}}`, `{"data":{"user":"u","account":"a"}}`, `{"id":"` + id.String() + `"}`, "", "{}",
		`{"tiers":{"a":[` + strings.Repeat(deep+",", 20) + deep + `]}}`, `{"labels":{` + strings.Repeat(`"":"",`, 30_000) + `"":""}}`,
	} {
		f.Add([]byte(text))
	}
	c := &census{d: &doctor{}, beating: map[subjects.HostID]time.Duration{}}
	subject := subjects.Space{}.Heartbeat(agent.HostBeats, id.Proc().Process().String())
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.Bounded(t, data, func() { _ = json.Unmarshal(data, new(storage)) })
		bustest.Bounded(t, data, func() { _ = json.Unmarshal(data, new(account)) })
		bustest.Bounded(t, data, func() { _ = json.Unmarshal(data, new(acknowledgement)) })
		bustest.Bounded(t, data, func() { _ = json.Unmarshal(data, new(agent.HostInfo)) })
		bustest.Bounded(t, data, func() { c.hear(bus.Msg{Subject: subject, Data: data}) })
	})
}

package doctor

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

// Any answer costs the doctor little.
func FuzzDoctor(f *testing.F) {
	id, err := subjects.NewHostID("host")
	if err != nil {
		f.Fatal(err)
	}
	deep := strings.Repeat(`{"":`, 9000) + "1" + strings.Repeat("}", 9000)
	for _, text := range []string{
		`{"streams":1,"limits":{"max_streams":-1},"tiers":{"R1":{"streams":1}}}`,
		`{"data":{"user":"u","account":"a"}}`, `{"id":"` + id.String() + `"}`, "", "{}",
		`{"tiers":{"a":[` + strings.Repeat(deep+",", 20) + deep + `]}}`,
		`{"labels":{` + strings.Repeat(`"":"",`, 30_000) + `"":""}}`,
	} {
		f.Add([]byte(text))
	}
	c := &heartbeatListener{d: &doctor{}, lags: map[subjects.HostID]time.Duration{}}
	from := subjects.NewSender(subjects.Host.Principal("host"), id.Proc().Process())
	subject := subjects.Space{}.Heartbeat(agent.KindHostHeartbeat, from)
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { _ = json.Unmarshal(data, new(jetStreamInfo)) })
		bustest.CheckAllocBound(t, data, func() { _ = json.Unmarshal(data, new(userInfo)) })
		bustest.CheckAllocBound(t, data, func() { _ = json.Unmarshal(data, new(streamAck)) })
		bustest.CheckAllocBound(t, data, func() { _ = json.Unmarshal(data, new(agent.HostInfo)) })
		bustest.CheckAllocBound(t, data, func() { c.onHeartbeat(bus.Msg{Subject: subject, Data: data}) })
	})
}

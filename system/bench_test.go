package system

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
)

// crowd is a number of worlds with ten procs each, all live, ten worlds on a host.
func crowd(b *testing.B, worlds int) *scenario {
	s := newScenario(b)
	for i := range worlds {
		name, host := fmt.Sprintf("w%d", i), s.host(fmt.Sprintf("h%d", i/10))
		spec := Spec{Name: name, Shape: shape.Of("x", 10), PerHost: 10, Command: agent.Command{Path: agent.Builtin}}
		s.st.step(nameChecked{request: upsert{from(1), UpsertRequest{Spec: spec}, s.mesh(name)}}, s.now)
		s.st.step(join{from(1), JoinRequest{World: name, Host: &HostJoin{ID: host, Incarnation: "1"}}}, s.now)
		s.st.step(shareReport{host, s.mesh(name), 0,
			agent.Overlay{{Count: 10, Status: agent.Status{Phase: agent.Running}}}}, s.now)
	}
	require.Equal(b, StatusLive, s.st.worlds["w0"].status)
	return s
}

// A step costs as much among 1,000 worlds as among 10.
func BenchmarkStep(b *testing.B) {
	for _, worlds := range []int{10, 1000} {
		b.Run(fmt.Sprintf("worlds=%d/beat", worlds), func(b *testing.B) {
			s := crowd(b, worlds)
			id := s.proc("w0/90.0")
			s.st.step(join{from(1), JoinRequest{World: "w0", Proc: &ProcJoin{ID: id}}}, s.now)
			for b.Loop() {
				s.now = s.now.Add(time.Nanosecond)
				s.st.step(heartbeat{from(1), HeartbeatRequest{Proc: id}}, s.now)
			}
		})
		b.Run(fmt.Sprintf("worlds=%d/rejoin", worlds), func(b *testing.B) {
			s := crowd(b, worlds)
			e := join{from(1), JoinRequest{World: "w0", Host: &HostJoin{ID: s.host("h0"), Incarnation: "1"}}}
			for b.Loop() {
				s.now = s.now.Add(time.Nanosecond)
				s.st.step(e, s.now)
			}
		})
		b.Run(fmt.Sprintf("worlds=%d/report", worlds), func(b *testing.B) {
			s := crowd(b, worlds)
			e := shareReport{s.host("h0"), s.mesh("w0"), 0,
				agent.Overlay{{Count: 10, Status: agent.Status{Phase: agent.Running}}}}
			for b.Loop() {
				s.st.step(e, s.now)
			}
		})
		b.Run(fmt.Sprintf("worlds=%d/die-and-anew", worlds), func(b *testing.B) {
			s := crowd(b, worlds)
			for n := 0; b.Loop(); n++ {
				s.st.step(undelivered{s.proc(fmt.Sprintf("w0/90.%d", n))}, s.now)
				s.st.step(join{from(1), JoinRequest{World: "w0",
					Proc: &ProcJoin{ID: s.proc(fmt.Sprintf("w0/90.%d", n+1))}}}, s.now)
			}
		})
	}
}

func BenchmarkRestore(b *testing.B) {
	s := crowd(b, 1000)
	var records []Record
	for _, w := range s.st.worlds {
		records = append(records, w.record())
	}
	b.ReportAllocs()
	for b.Loop() {
		newState(s.st.limits).step(restored{records: records, directSuccessor: true}, s.now)
	}
}

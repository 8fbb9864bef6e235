package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

func TestGolden_doctor(t *testing.T) {
	frozen := hostAnswer(t, "gpu-node-0042", func(a *hostCheck) {
		a.err = errors.New("no answer")
		a.gatewayView = agent.KnownHost{State: agent.HostSuspect, Silence: 2 * time.Second}
	})
	dead := hostAnswer(t, "gpu-node-0043", func(a *hostCheck) {
		a.err = errors.New("no answer")
		a.gatewayView = agent.KnownHost{State: agent.HostDead, Silence: 17 * time.Minute}
	})
	s := hostSurvey{answers: []hostCheck{hostAnswer(t, "gpu-node-0041"), frozen, dead, hostAnswer(t, "gpu-node-0044")},
		beating: 2, strangers: 50}
	checkFindings(t, "doctor-trouble", s.hosts(), s.clocks(), s.logs())
	full := hostAnswer(t, "gpu-node-0041", func(a *hostCheck) {
		a.info.LogTrouble = "the disk of /var/lib/castnet/logs is nearly full: older output is dropped, and new output " +
			"may be lost"
	})
	s = hostSurvey{answers: []hostCheck{full, hostAnswer(t, "gpu-node-0044")}, beating: 2}
	checkFindings(t, "doctor-disk-full", s.hosts(), s.clocks(), s.logs())
	checkFindings(t, "doctor",
		Finding{Check: "connection", Result: ResultOK,
			Found: "nats://10.0.0.7:4222, nats-server 2.12.1, user alice, account CASTNET, 210µs there and back, " +
				"TLS 1.3"},
		Finding{
			Check: "permissions", Result: ResultFail, Suggestion: "allow that in the configuration of the server",
			Found: "this user may not publish castnet.v1.default.k.>, castnet.v1.default.f.>; nor subscribe " +
				"castnet.v1.default.hb.gone.*.*",
		},
		Finding{Check: "jetstream", Result: ResultWarn, Found: "no JetStream: " + NotDurableText,
			Suggestion: "start hostd with --data DIR, or turn JetStream on in the server and for the account"},
		Finding{Check: "hosts", Result: ResultFail, Found: "2 of 3 answer; silent: node-c",
			Suggestion: "see the log of hostd there", partial: true},
	)
}

func checkFindings(t *testing.T, name string, findings ...Finding) {
	golden.Check(t, name, func(out *output.Printer) error {
		d := &doctor{app: &app.App{Printer: out}, bar: &output.Progress{}}
		for _, f := range findings {
			if err := d.report(f); err != nil {
				return err
			}
		}
		return d.finish()
	})
}

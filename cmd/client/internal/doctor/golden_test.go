package doctor

import (
	"testing"

	"github.com/castnet-io/castnet/cmd/client/internal/app"
	"github.com/castnet-io/castnet/cmd/client/internal/golden"
	"github.com/castnet-io/castnet/cmd/client/internal/output"
)

func TestGolden_doctor(t *testing.T) {
	golden.Check(t, "doctor", func(out *output.Printer) error {
		d := &doctor{app: &app.App{Printer: out}, bar: &output.Progress{}}
		for _, f := range []Finding{
			{Check: "connection", Result: ResultOK,
				Found: "nats://10.0.0.7:4222, nats-server 2.12.1, user alice, account CASTNET, 210µs there and back, " +
					"TLS 1.3"},
			{
				Check: "permissions", Result: ResultFail, Suggestion: "allow that in the configuration of the server",
				Found: "this user may not publish castnet.v1.default.k.>, castnet.v1.default.f.>; nor subscribe " +
					"castnet.v1.default.hb.gone.*.*",
			},
			{Check: "jetstream", Result: ResultWarn, Found: "no JetStream: " + NotDurableText,
				Suggestion: "start hostd with --data DIR, or turn JetStream on in the server and for the account"},
			{Check: "hosts", Result: ResultFail, Found: "2 of 3 answer; silent: node-c",
				Suggestion: "see the log of hostd there", partial: true},
		} {
			if err := d.report(f); err != nil {
				return err
			}
		}
		return d.finish()
	})
}

package system

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/wire"
)

// Any content of the bucket, and any foreign answer about a name, decodes or is an error.
func FuzzRecords(f *testing.F) {
	for _, text := range []string{
		`{"name":"w","spec":{},"hosts":[{"host":"a-000000000000","rank":1,"labels":{"gpu":"4"}}],"gens":{"1":2}}`,
		`{"name":"w","kind":"world","holder":"w"}`,
		`{"world":"w","shape":"gpu=4","per_host":4}`, `{"of":"w","label":"a","has":"b","asked":"c"}`,
		"", "null", "[]",
		`{"hosts":[` + strings.Repeat(`{},`, 100_000) + `{}]}`,
		`{"procs":[` + strings.Repeat(`0,`, 100_000) + `0]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bustest.CheckAllocBound(t, data, func() { _ = wire.JSON.Decode(data, new(Record)) })
		bustest.CheckAllocBound(t, data, func() { _ = wire.JSON.Decode(data, new(leaseRecord)) })
		bustest.CheckAllocBound(t, data,
			func() { _ = json.Unmarshal(data, new(struct{ Metadata map[string]string })) })
		bustest.CheckAllocBound(t, data, func() { _ = new(NameTakenError).FromDetail(actor.CodeNameTaken, data) })
		bustest.CheckAllocBound(t, data, func() { _ = new(ExistsError).FromDetail(actor.CodeConflict, data) })
		bustest.CheckAllocBound(t, data, func() { _ = new(LabelError).FromDetail(actor.CodeConflict, data) })
	})
}

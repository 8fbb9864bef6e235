package faults

import (
	"context"
	"encoding/json"

	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/integration/faults/history"
	"github.com/castnet-io/castnet/subjects"
)

// rawSubject is the subject of a process for plain NATS messages.
func rawSubject(p subjects.ProcID) string { return "faults.raw." + p.Process().String() }

// rawParcel is a parcel with its sender, because NATS does not name one.
type rawParcel struct {
	From   string
	Parcel parcel
}

func (s *sender) sendRaw(to subjects.ActorID, p parcel) error {
	data, err := json.Marshal(rawParcel{s.self, p})
	if err != nil {
		return err
	}
	if err := s.publish(rawSubject(to.Proc), data); err != nil {
		return s.history.Add(history.Record{
			Kind: history.Undeliverable, Stream: history.Stream{From: s.self, To: p.To}, N: p.N, Note: err.Error(),
		})
	}
	return nil
}

// listen records plain NATS messages.
func (w *workerRole) listen(context.Context, order) (report, error) {
	_, err := w.bus.Data().Subscribe(rawSubject(w.proc.ID()), func(m bus.Msg) {
		var p rawParcel
		if err := json.Unmarshal(m.Data, &p); err != nil {
			panic(err) // nobody else publishes there
		}
		stream := history.Stream{From: p.From, To: p.Parcel.To}
		if err := w.history.Add(history.Record{Kind: history.Handled, Stream: stream, N: p.Parcel.N,
			Note: p.Parcel.To}); err != nil {
			panic(err)
		}
	})
	return report{}, err
}

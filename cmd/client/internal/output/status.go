package output

import (
	"github.com/castnet-io/castnet/agent"
)

func (out *Printer) PaintHostState(s string) string {
	if s == "dead" {
		return out.Paint(Red, s)
	}
	return out.Paint(Yellow, s)
}

// PaintStatus formats a status in colour.
func (out *Printer) PaintStatus(s string) string {
	switch s {
	case agent.Running.String():
		return out.Paint(Green, s)
	case agent.Failed.String():
		return out.Paint(Red, s)
	case agent.Stopped.String():
		return out.Paint(Grey, s)
	}
	return out.Paint(Yellow, s)
}

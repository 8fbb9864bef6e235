package proc

import (
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/cast"
)

// casts lists the running casts of the process, without those to agents: the question is one.
func (a *procAgent) casts(r agent.CastsRequest) (out agent.Casts, err error) {
	if err := r.Check(); err != nil || a.proc.ID().Index != 0 {
		return out, err
	}
	running, more := cast.RunningOf(a.proc, r.Named, agent.MaxCasts)
	out.More = more
	for _, c := range running {
		if c.Actor == agent.Name {
			continue
		}
		of := agent.RunningCast{
			ID: c.ID, Actor: c.Actor, Endpoint: c.Endpoint, From: c.From.String(),
			Left: max(0, time.Until(c.Deadline)), Region: c.Region, Asked: c.Asked, Gone: c.Gone,
			Answered: c.Answered, Failed: c.Failed, Waiting: c.Waiting,
		}
		if !c.Since.IsZero() {
			of.Age = max(0, time.Since(c.Since))
		}
		out.Casts = append(out.Casts, of)
	}
	return out, nil
}

package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/internal/text"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// Explanation explains the state of a mesh. Its JSON names are stable.
type Explanation struct {
	Mesh        string   `json:"mesh"`
	Phase       string   `json:"phase"`
	Healthy     bool     `json:"healthy"` // every rank runs and no problem is known
	Answer      string   `json:"answer"`
	Causes      []Cause  `json:"causes"` // root cause first; a healthy mesh has those of kind logs
	Next        []string `json:"next"`   // next automatic steps
	Suggestions []string `json:"suggestions"`
}

// Cause is one problem.
type Cause struct {
	Kind       string    `json:"kind"` // host, owner, rank, actor or logs
	Region     string    `json:"region,omitempty"`
	Ranks      int       `json:"ranks,omitempty"`
	Reason     string    `json:"reason"`
	Since      time.Time `json:"since,omitzero"`
	StderrTail []string  `json:"stderr_tail,omitempty"`
}

// String formats a cause in one line.
func (c Cause) String() string {
	line := text.Shorten(c.Reason, 200)
	if c.Region != "" && c.Kind != "host" {
		line = fmt.Sprintf("[%s] %s", c.Region, line)
	}
	ago := ""
	if !c.Since.IsZero() {
		ago = text.Age(time.Since(c.Since)) + " ago"
	}
	if ago != "" && c.Kind == "host" {
		line += ", last heard " + ago
	} else if ago != "" {
		line += " (" + ago + ")"
	}
	if c.Ranks > 0 && c.Kind == "host" {
		line += fmt.Sprintf("; it has %s [%s]", text.Pluralize(c.Ranks, "rank"), c.Region)
	}
	return line
}

// Explanation explains why the mesh is not running. It is a pure function of the view.
func (v View) Explanation() Explanation {
	x := Explanation{Mesh: v.Mesh, Phase: v.Phase, Causes: []Cause{}, Next: []string{}, Suggestions: []string{}}
	for _, found := range [][]Cause{v.hostCauses(), v.ownerCauses(), v.rankCauses(), v.actorCauses()} {
		x.Causes = append(x.Causes, found...)
	}
	x.Healthy = v.Phase == agent.Running.String() && len(x.Causes) == 0
	x.Answer = v.summary(x.Healthy)
	x.Causes = append(x.Causes, v.logCauses()...)
	if !x.Healthy {
		x.Next = append(x.Next, v.nextSteps()...)
		x.Suggestions = append(x.Suggestions, v.suggestions()...)
	}
	return x
}

// summary is the explanation in one line.
func (v View) summary(well bool) string {
	n := map[string]int{}
	for _, r := range v.Statuses {
		n[r.Status] += r.Ranks
	}
	running := agent.Running.String()
	switch {
	case well:
		text := fmt.Sprintf("%s is running: %s", v.Mesh, allRanksText(v.Ranks))
		if v.NoActors != "" {
			text += ", with no actors " + v.DescribeRegion(v.NoActors)
		}
		return text
	case v.World != nil && n[running] < v.Ranks: // the system controller knows more than the ranks
	case v.Phase == running && n[running] == v.Ranks:
		return fmt.Sprintf("%s is running, all of it, but", v.Mesh)
	case v.Phase == running:
		return fmt.Sprintf("%s is running with %d of its %d ranks", v.Mesh, n[running], v.Ranks)
	}
	var parts []string
	for p := agent.NotExist; p <= agent.Unknown; p++ {
		if k := n[p.String()]; k > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", k, p))
		}
	}
	how := v.Phase
	if v.World != nil {
		how = string(v.World.Status)
	}
	return fmt.Sprintf(
		"%s is %s: of its %s %s", v.Mesh, how, text.Pluralize(v.Ranks, "rank"), strings.Join(parts, ", "),
	)
}

// DescribeRegion formats a region for a sentence.
func (v View) DescribeRegion(region string) string {
	if region == "*" {
		return "in it"
	}
	return "on [" + region + "]"
}

func allRanksText(ranks int) string {
	if ranks == 1 {
		return "its one rank"
	}
	return fmt.Sprintf("all its %d ranks", ranks)
}

// hostCauses returns the unhealthy hosts, dead ones first.
func (v View) hostCauses() (out []Cause) {
	if v.hasEnded() && len(v.Failures) == 0 { // they left after the end
		return nil
	}
	for i, h := range v.Hosts {
		if h.State == hostAlive {
			continue
		}
		var ranks []int
		for rank := i * v.PerHost; rank < min((i+1)*v.PerHost, v.Ranks); rank++ {
			ranks = append(ranks, rank)
		}
		why := fmt.Sprintf("host %s is %s: %s", text.HostLabel(h.ID), h.State, h.Reason)
		if h.State == hostMissing {
			why = h.Reason
		}
		out = append(out, Cause{
			Kind: "host", Region: shape.Describe(v.Shape, ranks), Ranks: len(ranks), Reason: why, Since: h.Since,
		})
	}
	slices.SortStableFunc(out, func(a, b Cause) int {
		return cmp.Compare(strings.Index(b.Reason, " is dead: "), strings.Index(a.Reason, " is dead: "))
	})
	return out
}

// logCauses returns the hosts that may lose output. The mesh may be healthy.
func (v View) logCauses() (out []Cause) {
	for _, h := range v.Hosts {
		if h.LogTrouble != "" {
			out = append(out, Cause{
				Kind: "logs", Reason: fmt.Sprintf("output may be lost on %s: %s", text.HostLabel(h.ID), h.LogTrouble),
			})
		}
	}
	return out
}

// ownerCauses returns the silent owner of a live mesh.
func (v View) ownerCauses() []Cause {
	if v.Owner.Answering || v.hasEnded() {
		return nil
	}
	return []Cause{{Kind: "owner", Reason: "its owner does not answer: " + v.Owner.Reason}}
}

// rankCauses returns the ends of ranks, the earliest first, and then other reasons. Equal ends are
// one cause.
func (v View) rankCauses() (out []Cause) {
	down := v.hostsDown()
	own := slices.DeleteFunc(slices.Clone(v.Failures), down.caused)
	for _, g := range GroupRanks(v.Shape, own, func(f Failure) int { return f.Rank }, Failure.describe) {
		first := g.Items[0]
		out = append(out, Cause{
			Kind: "rank", Region: g.Region, Ranks: len(g.Ranks), Reason: g.Outcome,
			Since: first.At, StderrTail: first.StderrTail,
		})
	}
	if v.SilentProcs != "" {
		ranks, _ := shape.Select(v.Shape, v.SilentProcs) // described in its own syntax
		out = append(out, Cause{
			Kind: "rank", Region: v.SilentProcs, Ranks: ranks.NumRanks(),
			Reason: "running, but its proc does not answer",
		})
	}
	for _, r := range v.Statuses {
		switch {
		case r.Status == agent.Failed.String(), r.Reason == noHostReason, down.explains(r.Reason):
			// reported above
		case r.Status == agent.Running.String() && r.Reason == "":
		default:
			out = append(
				out,
				Cause{
					Kind: "rank", Region: r.Region, Ranks: r.Ranks, Reason: strings.TrimSuffix(r.Status+": "+r.Reason, ": "),
				},
			)
		}
	}
	return out
}

// hostNames are names of hosts: their IDs and their labels.
type hostNames map[string]bool

// hostsDown names the unhealthy hosts.
func (v View) hostsDown() hostNames {
	down := hostNames{}
	for _, h := range v.UnhealthyHosts() {
		down[h.ID] = true
		down[text.HostLabel(h.ID)] = true
	}
	return down
}

// caused reports whether a rank failed with its host, a cause of its own.
func (down hostNames) caused(f Failure) bool {
	return f.ExitCode == nil && f.Signal == 0 && down[f.Host] &&
		(strings.HasPrefix(f.Reason, "host "+text.HostLabel(f.Host)+" is ") ||
			strings.HasPrefix(f.Reason, "host "+f.Host+" is "))
}

// explains reports whether a reason names an unhealthy host.
func (down hostNames) explains(reason string) bool {
	rest, isOfHost := strings.CutPrefix(reason, "its host ")
	name, _, _ := strings.Cut(rest, " ")
	return isOfHost && down[name]
}

// describe formats the end of a rank in one line.
func (f Failure) describe() string {
	text := cmp.Or(f.Reason, "it failed")
	switch {
	case f.OOM:
		text += "; the kernel killed it for lack of memory"
	case f.Signal != 0 && !strings.Contains(text, "signal"):
		text += fmt.Sprintf("; signal %d", f.Signal)
	case f.ExitCode != nil && !strings.Contains(text, "exit"):
		text += fmt.Sprintf("; exit code %d", *f.ExitCode)
	}
	if f.Root != "" {
		text += "; caused by: " + f.Root
	}
	return "failed: " + text
}

// actorCauses returns ended actors in running procs.
func (v View) actorCauses() (out []Cause) {
	for _, x := range v.Actors {
		for _, r := range x.Statuses {
			if r.Status != agent.Running.String() {
				why := strings.TrimSuffix(
					fmt.Sprintf("actor %s is %s: %s", text.Label(x.Actor), r.Status, r.Reason), ": ",
				)
				out = append(out, Cause{Kind: "actor", Region: r.Region, Ranks: r.Ranks, Reason: why})
			}
		}
	}
	return out
}

// hasEnded reports whether every rank has ended for good. For a world the system controller
// decides.
func (v View) hasEnded() bool {
	return v.World == nil && (v.Phase == agent.Stopped.String() || v.Phase == agent.Failed.String())
}

// nextSteps returns the next automatic steps.
func (v View) nextSteps() (out []string) {
	if v.hasEnded() {
		out = append(out, "nothing: it has ended, and its hosts remember it for a while")
		if v.Started != nil {
			out = append(out, fmt.Sprintf("it started %s ago, and no host remembers a later mesh of this name",
				text.Age(time.Since(*v.Started))))
		}
		return out
	}
	if !v.Owner.Answering {
		if v.LeaseLeft == 0 {
			return append(out, "no host reports a lease: live procs run until `castnet stop`")
		}
		if !v.Owner.Gone {
			return append(out, "unless its owner renews it, its lease "+v.DescribeLease())
		}
		return append(out, "its lease "+v.DescribeLease())
	}
	silent := v.silentSteps()
	if w := v.World; w != nil {
		if w.isSteady() && len(silent) > 0 {
			return silent
		}
		return append(out, w.nextStep())
	}
	for _, l := range v.RestartedRanks {
		if l.RestartPhase != "" {
			out = append(
				out,
				fmt.Sprintf(
					"[%s] %s, in generation %d (restart %d; %s)", l.Point, l.DescribePhase(), l.Gen, l.Restarts,
					v.RestartPolicy,
				),
			)
		}
	}
	out = append(out, silent...)
	if len(v.Failures) > 0 {
		out = append(out, fmt.Sprintf("failed ranks do not restart (%s)", v.RestartPolicy))
	}
	if v.Phase == agent.ShuttingDown.String() {
		out = append(out, "it stops: procs still running after the grace are killed")
	}
	return out
}

// silentSteps returns the next automatic step for each silent host that may be alive.
func (v View) silentSteps() (out []string) {
	for _, h := range v.UnhealthyHosts() {
		if h.State == agent.HostSuspect || h.State == agent.HostUnknown || h.State == hostSilent {
			out = append(
				out, fmt.Sprintf("host %s is being checked: it is alive or dead within seconds", text.HostLabel(h.ID)),
			)
		}
	}
	return out
}

// isSteady reports whether the system controller sees nothing to do.
func (w World) isSteady() bool { return w.StoppingReason == "" && w.Status == system.StatusLive }

// nextStep returns the next automatic step for a world.
func (w World) nextStep() string {
	if w.StoppingReason != "" {
		return "it is being stopped: " + w.StoppingReason
	}
	if w.EvictionIn > 0 {
		return fmt.Sprintf("it is stopped and removed in %s (world.eviction-timeout): %s",
			text.Remaining(w.EvictionIn), w.Reason)
	}
	if w.Status == system.StatusUnhealthy || w.Status == system.StatusStarting {
		return "it waits for missing procs: " + w.Reason
	}
	return "nothing: it is " + string(w.Status)
}

// startAgain is the suggestion for an ended mesh.
const startAgain = "start it again: a mesh that has ended does not come back"

// suggestions returns possible actions of a person.
func (v View) suggestions() (out []string) {
	if len(v.Failures) > 0 {
		var ranks []int
		down := v.hostsDown()
		for _, f := range v.Failures {
			if !down.caused(f) {
				ranks = append(ranks, f.Rank)
			}
		}
		if len(ranks) > 0 {
			first := slices.Min(ranks)
			out = append(
				out,
				fmt.Sprintf(
					"read the output of the first of them: castnet logs %s",
					text.ShellQuote(v.Mesh+"["+Point(v.Shape, first)+"]"),
				),
			)
		}
	}
	for i, h := range v.Hosts {
		switch {
		case h.State == hostAlive && h.StoppedBy != "" && !v.hasEnded():
			out = append(out, fmt.Sprintf(
				"start the procs of %s again: stop its hostd (SIGTERM), and start it with --world %s --host-rank %d",
				text.HostLabel(h.ID), v.Label, i))
		case h.State == hostAlive, v.hasEnded() && len(v.Failures) == 0:
		case h.State == hostMissing:
			out = append(out, fmt.Sprintf("start a hostd with --world %s --host-rank %d", v.Label, i))
		case v.World != nil:
			out = append(
				out,
				fmt.Sprintf(
					"check hostd on %s, or start another with --world %s --host-rank %d", text.HostLabel(h.ID), v.Label, i,
				),
			)
		default:
			out = append(out, fmt.Sprintf("check hostd on %s", text.HostLabel(h.ID)))
		}
	}
	if v.hasEnded() {
		out = append(out, startAgain)
	} else if v.Owner.Gone {
		out = append(out, "stop it, then start its program again: castnet stop "+v.Mesh)
	} else if !v.Owner.Answering {
		out = append(out, "ask again, as its owner may be slow; `castnet doctor` checks the bus and the hosts")
	}
	return out
}

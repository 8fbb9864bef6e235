package system

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("update", false, "write the traces of testdata/*.txt anew")

// Each file of testdata is a script. A line is an event for the controller. The indented lines
// below it are its orders.
func TestStep_scenarios(t *testing.T) { // WORLD-3, WORLD-6
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			var got strings.Builder
			s := newScenario(t)
			for line := range strings.Lines(string(script)) {
				if strings.HasPrefix(line, "\t") {
					continue
				}
				got.WriteString(line)
				if f := strings.Fields(line); len(f) > 0 && f[0] != "#" {
					got.WriteString(s.applyLine(f[0], f[1:]))
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o600))
			}
			require.Equal(t, string(script), got.String())
		})
	}
}

func TestStep_reportsABoundedNumberOfCauses_WORLD6(t *testing.T) {
	s := newScenario(t)
	s.run("declare", []string{"w", "x=40", "1"})
	s.run("named", []string{"w"})
	var told []any
	for rank := range 40 {
		proc := fmt.Sprintf("w/%d.0", rank)
		s.run("proc", []string{proc, "w"})
		told = append(told, s.run("beat", []string{proc, "worker-" + strconv.Itoa(rank)})...)
	}
	told = slices.DeleteFunc(told, func(e any) bool { _, is := e.(worldEvent); return !is })
	require.Len(t, told, maxCauses)
}

// from is a caller, by number.
type from int

func (from) reply(any, error) {}

// scenario is a state that a script drives.
type scenario struct {
	t     require.TestingT
	st    *state
	start time.Time
	now   time.Time
	asked []queryName // without an answer so far
}

func newScenario(t require.TestingT) *scenario {
	start := time.Unix(1000, 0)
	l := limits{silence: 4 * time.Second, eviction: 30 * time.Second, stopWithin: 8 * time.Second,
		reservation: 30 * time.Second}
	return &scenario{t: t, start: start, now: start, st: newState(l)}
}

// words are the arguments of a line, with those of the form k=v in a map.
func words(args []string) (plain []string, named map[string]string) {
	named = map[string]string{}
	for _, a := range args {
		if k, v, ok := strings.Cut(a, ":"); ok {
			named[k] = v
		} else {
			plain = append(plain, a)
		}
	}
	return plain, named
}

// applyLine applies one line of a script and returns its trace.
func (s *scenario) applyLine(verb string, args []string) string {
	plain, named := words(args)
	switch verb {
	case "limits": // silence eviction stop
		s.st.silence, s.st.eviction, s.st.stopWithin = s.duration(plain[0]), s.duration(plain[1]),
			s.duration(plain[2])
		return ""
	case "snapshot":
		out := s.trace(s.st.step(tick{}, s.now))
		return out + s.shown(s.st.snapshot(s.filter(named)))
	case "health": // world
		out := s.trace(s.st.step(tick{}, s.now))
		sick := s.st.unhealthy(plain[0])
		if sick == nil {
			return out + "\tnone\n"
		}
		out += "\tfailing:"
		for _, p := range sick.Unhealthy {
			out += fmt.Sprintf(" %d", p.ID.Rank)
		}
		return out + "\n"
	case "where":
		found, err := s.st.locate(plain[0])
		if err != nil {
			return "\terror: " + err.Error() + "\n"
		}
		return fmt.Sprintf("\t%s on %s, %s\n", short(found.Proc), short(found.Host), found.Health)
	case "next":
		at, ok := s.st.nextTick()
		if !ok {
			return "\tnever\n"
		}
		return "\tat " + at.Sub(s.start).String() + "\n"
	}
	return s.trace(s.run(verb, args))
}

// run applies one line of the script.
func (s *scenario) run(verb string, args []string) []any {
	plain, named := words(args)
	switch verb {
	case "at": // since the start; the ticks before it come in time
		return s.tickUntil(s.start.Add(s.duration(plain[0])))
	case "paused": // until then, since the start: no tick came
		s.now = s.start.Add(s.duration(plain[0]))
		return s.step(tick{})
	case "named": // name [who has it [kind]]
		return s.named(plain)
	}
	return s.step(s.event(verb, plain, named))
}

// tickUntil lets time pass as in a controller that runs.
func (s *scenario) tickUntil(end time.Time) (effects []any) {
	for {
		next, ok := s.st.nextTick()
		if !ok || !next.Before(end) {
			break
		}
		s.now = next
		effects = append(effects, s.step(tick{})...)
	}
	s.now = end
	return append(effects, s.step(tick{})...)
}

// step applies an event. It keeps a request that waits for its name.
func (s *scenario) step(event any) []any {
	effects := s.st.step(event, s.now)
	for _, e := range effects {
		if q, ok := e.(queryName); ok {
			s.asked = append(s.asked, q)
		}
	}
	return effects
}

// named returns all requests with a waiting name, with the hosts' answer.
func (s *scenario) named(plain []string) (effects []any) {
	all := s.asked
	s.asked = nil
	for _, q := range all {
		if q.name == plain[0] {
			effects = append(effects, s.step(nameChecked{q.request, checkOf(plain)})...)
		} else {
			s.asked = append(s.asked, q)
		}
	}
	return effects
}

func (s *scenario) event(verb string, plain []string, named map[string]string) any {
	switch verb {
	case "declare", "plan": // world shape per-host [labels:k=v,…] [keep:yes] [path:…]
		extent, err := shape.ParseExtent(plain[1])
		require.NoError(s.t, err)
		spec := Spec{Name: plain[0], Shape: extent, PerHost: s.number(plain[2]), Labels: labels(named["labels"]),
			Keep: named["keep"] != ""}
		spec.Command.Path = "/bin/" + map[bool]string{true: "worker", false: named["path"]}[named["path"] == ""]
		return upsert{from: from(1), UpsertRequest: UpsertRequest{Spec: spec, DryRun: verb == "plan"},
			mesh: s.mesh(plain[0])}
	case "host": // host rank world [life:…] [labels:…]
		return join{from(1), JoinRequest{World: plain[2], Labels: labels(named["labels"]),
			Host: &HostJoin{ID: s.host(plain[0]), Rank: s.number(plain[1]), Incarnation: named["life"]}}}
	case "proc": // world/rank.gen world [mode:…] [labels:…]
		j := ProcJoin{ID: s.proc(plain[0])}
		if m := named["mode"]; m != "" {
			require.NoError(s.t, j.Mode.UnmarshalText([]byte(m)))
		}
		return join{from(1), JoinRequest{World: plain[1], Labels: labels(named["labels"]), Proc: &j}}
	case "leave-host":
		id := s.host(plain[0])
		return leave{from(1), LeaveRequest{Host: &id}}
	case "leave-proc":
		id := s.proc(plain[0])
		return leave{from(1), LeaveRequest{Proc: &id}}
	case "beat": // proc [failed actors]
		return heartbeat{from(1), HeartbeatRequest{Proc: s.proc(plain[0]), Failed: plain[1:]}}
	case "deaf":
		return deaf{}
	case "seen":
		return hostSeen{s.host(plain[0])}
	case "lost":
		return hostLost{s.host(plain[0]), strings.Join(plain[1:], " ")}
	case "reports": // host world.gen first+count phase [why]
		name, gen, _ := strings.Cut(plain[1], ".")
		return shareReport{s.host(plain[0]), s.mesh(name), s.number(gen), s.overlay(plain[2:])}
	case "has": // host [life:…] [world.gen first+count phase]
		e := inventory{host: s.host(plain[0]), incarnation: named["life"]}
		for rest := plain[1:]; len(rest) >= 3; rest = rest[3:] {
			name, gen, _ := strings.Cut(rest[0], ".")
			e.shares = append(e.shares, heldShare{s.mesh(name), s.number(gen), s.overlay(rest[1:3]), nil})
		}
		return e
	case "returned":
		return undelivered{s.proc(plain[0])}
	case "stop": // [worlds] [timeout:…]
		x := StopRequest{Worlds: plain, All: len(plain) == 0, Reason: named["why"],
			Report: new(actor.PortRef[StopReport])}
		if d := named["timeout"]; d != "" {
			x.Timeout = s.duration(d)
		}
		return stop{from(1), x}
	case "stopped": // world host|proc who stopped aborted killed…
		who := memberRef{}
		if plain[1] == "host" {
			who.host = s.host(plain[2])
		} else {
			who.proc = s.proc(plain[2])
		}
		return memberStopped{plain[0], who, s.number(plain[3]), s.number(plain[4]), plain[5:]}
	case "reserve": // name proc
		return reserve{from(1), s.reserving(plain)}
	case "release": // name proc
		return release{from(1), s.reserving(plain)}
	case "killed", "outage": // of the controller: another one takes over what was saved; of all: there was nobody to follow
		var records []Record
		for _, name := range slices.Sorted(maps.Keys(s.st.worlds)) {
			records = append(records, s.st.worlds[name].record())
		}
		for _, name := range slices.Sorted(maps.Keys(s.st.reserved.byName)) {
			records = append(records, Record{Name: name, Reserved: &s.st.reserved.byName[name].NameReservation})
		}
		s.st = newState(s.st.limits)
		s.asked = nil
		return restored{records: records, directSuccessor: verb == "killed"}
	}
	require.FailNow(s.t, "no such line: "+verb)
	return nil
}

// checkOf is the hosts' answer for a name; some mesh may have it.
func checkOf(plain []string) (c nameCheck) {
	if len(plain) > 1 {
		c.holder = &NameTakenError{Name: plain[0], Kind: kindMesh, Holder: plain[1]}
	}
	if len(plain) > 2 {
		c.holder.Kind = plain[2]
	}
	return c
}

// short leaves out the uids of IDs.
func short(id any) string {
	return strings.NewReplacer("-0000000000000", "").Replace(fmt.Sprint(id))
}

func (s *scenario) mesh(label string) subjects.MeshID {
	if strings.HasPrefix(label, "_") { // no label: who declares that is told
		return subjects.MeshID{}
	}
	id, err := subjects.ParseMeshID(label + "-0000000000000")
	require.NoError(s.t, err)
	return id
}

func (s *scenario) host(label string) subjects.HostID {
	id, err := subjects.ParseHostID(label + "-0000000000000")
	require.NoError(s.t, err)
	return id
}

func (s *scenario) proc(text string) subjects.ProcID {
	world, rank, _ := strings.Cut(text, "/")
	id, err := subjects.ParseProcID(s.mesh(world).String() + "/" + rank)
	require.NoError(s.t, err)
	return id
}

// reserving is the reservation of a name by a proc; a proc has one for each name.
func (s *scenario) reserving(plain []string) NameReservation {
	by := s.proc(plain[1])
	id, err := subjects.ParseMeshID(fmt.Sprintf("%s-%013s", plain[0], by.Mesh.Label()))
	require.NoError(s.t, err)
	return NameReservation{id, by}
}

func (s *scenario) number(text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(s.t, err)
	return n
}

func (s *scenario) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(s.t, err)
	return d
}

func (s *scenario) overlay(args []string) agent.Overlay {
	first, count, _ := strings.Cut(args[0], "+")
	r := agent.Run{First: s.number(first), Count: s.number(count)}
	require.NoError(s.t, r.Status.Phase.UnmarshalText([]byte(args[1])))
	r.Status.Reason = strings.Join(args[2:], " ")
	return agent.Overlay{r}
}

func (s *scenario) filter(named map[string]string) Filter {
	f := Filter{WorldLabels: labels(named["world-labels"]), ProcLabels: labels(named["proc-labels"])}
	if w := named["worlds"]; w != "" {
		f.Worlds = strings.Split(w, ",")
	}
	return f
}

// labels reads k=v,k=v.
func labels(text string) map[string]string {
	if text == "" {
		return nil
	}
	out := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		k, v, _ := strings.Cut(part, "=")
		out[k] = v
	}
	return out
}

// trace is the controller's effects, a line each.
func (s *scenario) trace(effects []any) string {
	var out strings.Builder
	for _, e := range effects {
		out.WriteString("\t" + short(describe(e)) + "\n")
	}
	return out.String()
}

// describe is an effect in words.
func describe(e any) string {
	switch e := e.(type) {
	case answer:
		switch v := e.value.(type) {
		case UpsertResponse:
			return fmt.Sprintf("answer: %s, %s is %s", v.Change, v.World, v.Status)
		case JoinResponse:
			if v.Count > 0 {
				return fmt.Sprintf("answer: joined %s, ranks %d+%d", v.World, v.First, v.Count)
			}
			return "answer: joined " + v.World
		case StopResponse:
			return fmt.Sprintf("answer: accepted %v skipped %v", v.Worlds, v.Skipped)
		}
		if e.err != nil {
			return "error: " + e.err.Error()
		}
		return "answer"
	case saveRecord:
		out := "save " + e.record.Name
		for _, h := range e.record.Hosts {
			out += fmt.Sprintf(" %d:%s.%d", h.Rank, h.Host, h.Gen)
		}
		for _, p := range e.record.Procs {
			out += fmt.Sprintf(" %s", p.ID)
		}
		if r := e.record.Reserved; r != nil {
			out += " for " + r.By.Mesh.Label()
		}
		if e.record.StoppingReason != "" {
			out += " ending"
		}
		return out
	case deleteRecord:
		return "forget " + e.world
	case create:
		return fmt.Sprintf("create %s.%d %d+%d on %s", e.mesh, e.gen, e.first, e.count, e.host)
	case stopShare:
		if e.who.proc.IsValid() {
			return fmt.Sprintf("halt %s within %s: %s", e.who, e.grace, e.why)
		}
		return fmt.Sprintf("halt %s on %s within %s: %s", e.mesh, e.who.host, e.grace, e.why)
	case fetchInventory:
		return fmt.Sprintf("look at %s", e.host)
	case worldEvent:
		return strings.TrimSuffix(fmt.Sprintf("told %s %s: %s", e.step, e.world, e.why), ": ")
	case sendReport:
		out := "report"
		for _, w := range e.Worlds {
			out += fmt.Sprintf(" %s: %d stopped, %d aborted, silent %v;", w.World, w.Stopped, w.Aborted, w.Silent)
			if len(w.Killed) > 0 {
				out += fmt.Sprintf(" killed %v;", w.Killed)
			}
		}
		return out
	case queryName:
		return "ask for the name " + e.name
	case quit:
		return "quit: " + e.why
	}
	return fmt.Sprintf("%#v", e)
}

// shown is a snapshot in words.
func (s *scenario) shown(all []WorldState) string {
	var out strings.Builder
	for _, w := range all {
		fmt.Fprintf(&out, "\t%s %s for %s", w.Name, w.Status, w.StatusAge)
		for _, part := range []string{w.Reason, w.StoppingReason} {
			if part != "" {
				out.WriteString(": " + part)
			}
		}
		out.WriteString("\n")
		for _, h := range w.Hosts {
			fmt.Fprintf(&out, "\t  host %d %s has %d+%d %s%v\n", h.Rank, h.ID, h.First, h.Count, h.Lost, h.Labels)
		}
		for _, rank := range slices.Sorted(maps.Keys(w.Left)) {
			fmt.Fprintf(&out, "\t  host %d was %s\n", rank, w.Left[rank])
		}
		for _, p := range w.Procs {
			fmt.Fprintf(&out, "\t  proc %s %s %s%v\n", p.ID, p.Health, p.Reason, p.Labels)
		}
	}
	return short(out.String())
}

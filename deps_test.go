package castnet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const modulePath = "github.com/castnet-io/castnet"

// dag is REPO-1: who may import whom inside this module. A row is
//
//	package < what it may import ; what its tests may import besides
//		why the row is as short as it is
//
// A row imports only rows above it. "*" is every row above that is not a
// program. All tests may also import their own package and testHelpers.
// When this test fails, the import is wrong more often than the table: a new
// edge needs a reason as good as the ones here, and a record in docs/decisions.
const dag = `
subjects
	IDs and the subject grammar are for any tool to import, so they bring nothing along
shape
	region algebra is arithmetic: pure, testable without a bus, usable without castnet
config < ; internal/wire
	every room may name its limits by their keys, so they stand below all of them and bring nothing along; tests hold the golden vectors
internal/logger
	where a program logs that says nothing of it is one decision, for all rooms that take a logger
slogger < ; actor internal/testkit internal/testproc bus bus/bustest
	a program that logs with log/slog keeps its handler; it knows no package of castnet
bus < ; internal/auth subjects
	the one door to NATS; it knows no IDs and no actors, so it can be tested as a pipe
bus/ticket < subjects
	the credentials of one process are texts: hosts make them without a server, and a server reads them without a bus
bus/signin < bus bus/ticket subjects
	the name of a process is chosen in one place, below all that connect: the bus itself knows no names
bus/embed < bus bus/ticket subjects ; bus/signin
	12 MB of nats-server that a program carries only when it says so; what a ticket permits is rendered there
bus/bustest < bus bus/embed
	servers and probes for tests of whatever uses the bus
internal/auth < bus subjects
	the keys of a server of one's own, and what they permit; hostd and the client make credentials, the library only carries them
internal/wire < subjects
	packets and CBOR modes are the one place that knows bytes; types above are just types
internal/link < bus subjects internal/wire
	delivery between two processes knows neither actors nor meshes, only packets and roads
internal/failpoint
	tests kill a process at a named instant; nothing in normal builds
internal/logfile
	files that other processes write are read, bounded and cut without the launcher, and tried without a process
internal/cgroup < internal/failpoint
	both versions of the kernel's groups behind one type: the launcher names limits and knows no file of theirs
internal/launch < internal/cgroup internal/failpoint internal/logfile
	owning an OS process is one craft, behind build tags, free of buses and actors
internal/proctest
	tests stop processes and have to know when they have stopped
internal/testkit
	waits with one bound, and one way to close: for the tests of every package, the lowest too
internal/testpage < internal/testkit
	pages of documentation run as their readers run them, from every module with tests of pages
internal/text < subjects
	how names and durations read is the same in the client and in what a library says of a mesh
internal/build
	which program this is, for callers and procs to compare; apart from launching, because clients launch nothing
internal/heapfloor
	when a small process collects its garbage; main functions choose it, never a library
internal/fanout
	one bounded loop for all that ask many at a time
internal/supervise
	what becomes of children is a decision about events: without clock, goroutine or actor, every order of them can be tried
internal/micro < bus
	the discovery protocol of NATS micro services, for hosts, procs and gateways alike
actor < bus internal/link internal/supervise internal/wire subjects shape
	agents and controllers are ordinary actors: the runtime must not know cast, agent, controller or mesh
actor/actortest < actor bus/bustest bus/embed subjects
	users test their actors with it, alone; what runs in production must not carry a test kit
cast < actor bus internal/link internal/wire subjects shape
	plan, route, gather and fold work on any mesh of refs, so they know no lifecycle; the router takes messages off the bus
internal/testproc < internal/testkit cast actor bus bus/bustest bus/embed subjects
	procs on a bus, for the tests inside packages that a mesh is made of, which the rig of whole meshes would import
agent < cast actor bus internal/fanout config internal/micro internal/wire subjects shape
	the lifecycle protocol is messages only, and the two requests that find who speaks it; the metrics of a process count its casts
presence < agent config actor bus internal/wire subjects
	who of the hosts is there, as one process sees it; what follows from a death is for controllers, which stand below
agent/agenttest < agent actor bus subjects
	the protocol's promises as tests, for all that speak it; what runs in production must not carry it
agent/proc < agent config actor cast bus internal/link internal/micro internal/wire subjects shape internal/build internal/heapfloor internal/launch
	what runs in a spawned process does not know who controls it: never mesh, never controller
controller < agent presence config actor cast bus internal/fanout internal/supervise subjects shape ; agent/host agent/proc
	owns a mesh by messages to agents; it launches nothing, so a client binary carries no launcher
system < controller agent presence config actor bus internal/fanout internal/micro internal/wire subjects shape ; agent/host agent/proc
	owns what outlives its maker, by messages to agents and controllers of its own, and keeps it in the bus's store, which it reads as it does messages; hostd runs it, and the client speaks to it
agent/host < agent config agent/proc actor cast bus bus/signin bus/ticket internal/micro internal/wire subjects shape internal/build internal/failpoint internal/fanout internal/launch internal/link internal/logfile internal/logger
	a host does not know who controls it: never mesh, never controller
mesh < controller system config agent presence cast actor bus bus/signin internal/build internal/fanout internal/logger internal/wire subjects shape ; agent/host agent/proc
	what users hold; agents and the system controller come to it as refs, so the library stays without launcher and server
mesh/inspect < mesh controller system cast agent actor bus internal/fanout internal/text shape subjects
	what a mesh is and how it is, for programs, the client and pages alike; it asks, and changes nothing
gateway < mesh config agent presence cast actor bus internal/fanout internal/micro internal/wire subjects shape ; agent/host agent/proc
	a client of meshes that speaks for those who have none; the verbs of cast know nothing of it
internal/testmesh < internal/testkit mesh system agent/host agent actor bus bus/bustest bus/embed subjects
	the one rig of tests with hosts, for the packages below mesh too; what runs in production must not carry it
internal/cli < bus actor cast config mesh shape subjects
	flags, NATS contexts, configuration files and exit codes are for the two commands, and the same in both
internal/builtin < actor bus internal/wire subjects shape ; actor/actortest
	the actors a host can run without a program of the user's; hostd binds them, others only name them; plain asks other programs over the bus, in JSON
internal/spans < actor subjects
	the spans of messages are the same in the commands and in otelcastnet, which is a module that users import
internal/metrics < agent cast actor ; bus bus/embed mesh shape subjects agent/host agent/proc
	what a scrape shows is the same at /metrics and in the command; nothing below them knows Prometheus
internal/stacks < shape
	what thousands of goroutines do fits a screen once equal stacks are one; pure, and tried with real profiles
internal/page < mesh/inspect internal/stacks mesh system cast agent actor shape internal/text internal/wire ; agent/proc internal/proctest internal/testkit internal/testmesh
	one page for hostd and the client; what it shows is what package inspect knows, and what it does the library does
cmd/internal/otlp < internal/spans actor
	one place makes spans leave a command, and links the SDK of OpenTelemetry
cmd/hostd < * cmd/internal/otlp
	the composition root of a node: server, agents and built-in actors meet here
cmd/client/internal/output < agent internal/text
	what people see is printed in one place; it asks nothing
cmd/client/internal/golden < cmd/client/internal/output
	what the screens look like is compared with files, by the tests of each package
cmd/client/internal/flags < subjects
	command lines are checked before anything is sent, so nothing here can send
cmd/client/internal/target < mesh system cast agent actor shape subjects internal/cli internal/wire internal/text mesh/inspect
	names into meshes and hosts, with the exit codes of what is not found
cmd/client/internal/app < mesh config actor bus subjects internal/cli internal/text cmd/client/internal/output
	the connection of one run; it knows no command
cmd/client/internal/candidates < mesh system internal/text cmd/client/internal/app mesh/inspect cmd/client/internal/target
	names to complete; what fails is silent
cmd/client/internal/casting < mesh cast actor shape subjects internal/cli internal/text cmd/client/internal/app cmd/client/internal/flags mesh/inspect cmd/client/internal/output cmd/client/internal/target ; cmd/client/internal/golden
	casts as typed; it makes of JSON what a gateway does
cmd/client/internal/worldfile < system agent shape subjects internal/cli
	a parser of files asks no bus
cmd/client/internal/logs < mesh agent actor shape internal/cli internal/text cmd/client/internal/app mesh/inspect cmd/client/internal/output cmd/client/internal/target ; cmd/client/internal/golden
	lines and ends come over the bus
cmd/client/internal/events < mesh controller agent actor bus shape subjects internal/text mesh/inspect cmd/client/internal/output ; cmd/client/internal/golden
	events come over the bus
cmd/client/internal/top < mesh agent internal/text mesh/inspect cmd/client/internal/output ; cmd/client/internal/golden
	counters of procs, drawn
cmd/client/internal/screen < mesh agent actor bus shape internal/text mesh/inspect cmd/client/internal/output ; cmd/client/internal/golden
	a state, its steps and its frames know no terminal; one file connects them to one, one to a castnet
cmd/client/internal/hostexec < mesh agent actor shape subjects internal/cli internal/fanout internal/text cmd/client/internal/app mesh/inspect cmd/client/internal/output cmd/client/internal/target ; cmd/client/internal/golden
	hosts run the commands; the client sends them
cmd/client/internal/doctor < mesh config system agent actor bus bus/signin subjects internal/cli internal/fanout internal/text internal/wire cmd/client/internal/app cmd/client/internal/output cmd/client/internal/target ; cmd/client/internal/golden
	it opens a bus of its own, as a user that may not join
cmd/client/internal/heldmesh < mesh config controller agent actor bus shape subjects internal/cli internal/text cmd/client/internal/app cmd/client/internal/flags mesh/inspect cmd/client/internal/output cmd/client/internal/target ; cmd/client/internal/golden
	it holds meshes by handles, and starts hostd as a program
cmd/client/internal/mcpserver < internal/cli internal/text
	a protocol of its own around command lines; it knows no command, and the root gives it the function that runs them
cmd/client < cmd/internal/otlp cmd/client/internal/mcpserver bus/ticket internal/auth mesh config controller system cast agent actor bus subjects shape internal/cli internal/fanout internal/metrics internal/text cmd/client/internal/output cmd/client/internal/flags mesh/inspect cmd/client/internal/target cmd/client/internal/app cmd/client/internal/candidates cmd/client/internal/casting cmd/client/internal/worldfile cmd/client/internal/logs cmd/client/internal/events cmd/client/internal/top cmd/client/internal/hostexec internal/page internal/stacks cmd/client/internal/doctor cmd/client/internal/heldmesh cmd/client/internal/screen ; agent/host agent/proc gateway internal/builtin cmd/client/internal/golden
	a remote control: it launches and serves nothing; each command has its file, and what it needs a package
examples/hello < mesh cast actor agent/host agent/proc bus bus/embed subjects shape
	what a reader may copy: public packages only
examples/status
	the live line of the examples, apart from them so that each of them is about its actors
examples/pingpong < examples/status mesh cast actor agent agent/host agent/proc bus bus/embed subjects shape
	what a reader may copy: public packages only
examples/philosophers < examples/status mesh cast actor agent agent/host agent/proc bus bus/embed subjects shape
	what a reader may copy: public packages only
examples/sieve < examples/status mesh cast actor agent agent/host agent/proc bus bus/embed subjects shape
	what a reader may copy: public packages only
examples/callout < bus subjects ; bus/embed
	what a reader may copy: public packages only
examples/wordcount/counting < cast actor shape
	the work of the example apart from the program around it, so that integration can give it a mesh of its own
examples/wordcount < examples/wordcount/counting mesh cast actor agent agent/host agent/proc bus bus/embed subjects shape
	what a reader may copy: public packages only
integration < * ; internal/launch examples/wordcount/counting
	whole-system tests with real processes may look at everything and are imported by nobody
scripts/stress < internal/fanout
	repeats tests of any package, so it knows none of them
scripts/hops < actor bus bus/embed subjects
	calls an actor of another process, and counts what runs
scripts/codestats
	reads code, and knows no package
scripts/locks
	reads code, and knows no package
scripts/roles < agent subjects system
	writes what agents permit, so it knows their tables
scripts/invariants
	reads code, and knows no package
scripts/prose
	reads texts, and knows no package
`

// thirdParty is the other half of REPO-1: the packages that may import each module. A row is
// "module < packages", then the reason; "tests" stands for the test files of any package. The
// longest matching row decides.
const thirdParty = `
github.com/nats-io/nats.go < bus bus/embed:tests integration:tests
	one place sets the options that keep order and lose nothing in silence; tests may play a foreign client
github.com/nats-io/nkeys < bus internal/auth examples/callout
	keys sign connects, and credentials; a library user has them by nats.go
github.com/nats-io/jwt/v2 < internal/auth examples/callout
	JWTs are made where the keys are; a connection only carries them
golang.org/x/crypto < internal/auth
	nats-server compares passwords with bcrypt
github.com/nats-io/nats-server/v2 < bus/embed system:tests
	a program that uses the library must not carry a server that it never starts; tests in bubbles start its clock outside
github.com/fxamacker/cbor/v2 < internal/wire
	one set of encoding modes, so that golden vectors hold for every message
golang.org/x/sys < internal/cgroup internal/launch internal/logfile agent/proc cmd/client/internal/output
	system calls are process craft, and live behind its build tags; the client asks for the size of its terminal
github.com/rs/zerolog < bus bus/embed bus/bustest internal/link internal/launch internal/logger slogger actor actor/actortest cast gateway presence agent/proc controller system agent/host mesh internal/testkit cmd/hostd cmd/client/internal/app cmd/client/internal/doctor tests
	every log line; values (subjects, shape, internal/wire, agent) have nothing to log
github.com/rs/zerolog/log
	the global logger: a logger is passed by value in options
github.com/spf13/cobra < internal/cli cmd/hostd cmd/client cmd/client/internal/app cmd/client/internal/casting cmd/client/internal/flags cmd/client/internal/heldmesh
	command lines belong to commands
github.com/spf13/pflag < internal/cli cmd/hostd cmd/client/internal/flags
	command lines belong to commands
go.yaml.in/yaml/v3 < internal/cli
	configuration files are read by the commands; the library takes their values
github.com/jedib0t/go-pretty/v6 < cmd/client/internal/output
	tables and progress bars are for programs that a person looks at
github.com/mattn/go-isatty < cmd/hostd cmd/client examples/status examples/wordcount
	only a program that a person looks at asks whether one does
charm.land/bubbletea/v2 < cmd/client/internal/screen
	raw mode, keys, resizes and redraws of all terminals are a craft of their own; only the command carries it
github.com/charmbracelet/x/ansi < cmd/client/internal/screen
	widths of characters and sequences in texts, as the terminal library counts them
github.com/creack/pty < cmd/client:tests
	the screen of the real command is tried on a pseudo terminal
github.com/google/pprof < internal/stacks cmd/client:tests
	profiles of many processes are merged where a person looks at them
github.com/prometheus/client_golang < internal/metrics cmd/hostd:tests
	one place knows the text of Prometheus: the library counts, and the commands show
go.opentelemetry.io/otel < internal/spans cmd/internal/otlp
	the API is for those who make spans; the library has a hook
go.opentelemetry.io/otel/sdk < cmd/internal/otlp
	what becomes of spans is for programs
go.opentelemetry.io/otel/exporters < cmd/internal/otlp
	how spans leave is for programs
go.opentelemetry.io/proto/otlp < cmd/internal/otlp:tests
	tests read what a collector receives
google.golang.org/protobuf < cmd/internal/otlp:tests
	tests read what a collector receives
github.com/prometheus/common < internal/metrics
	the text format of client_golang
github.com/modelcontextprotocol/go-sdk < cmd/client/internal/mcpserver cmd/client:tests
	the protocol of AI agents changes every few months; one package of one command speaks it
github.com/stretchr/testify < cmd/client/internal/golden bus/bustest actor/actortest agent/agenttest internal/proctest internal/testkit internal/testpage internal/testproc internal/testmesh tests
	assertions are for tests
go.uber.org/goleak < bus/bustest internal/testkit tests
	leak checks are for tests
pgregory.net/rapid < tests
	random inputs are for tests
`

// libraryModules are all the modules in a program that imports mesh and agent/proc. Each addition
// here is an addition to every user's build.
var libraryModules = []string{
	modulePath,
	"github.com/nats-io/nats.go",
	"github.com/fxamacker/cbor/v2",
	"github.com/rs/zerolog",
	"golang.org/x/sys",

	// Their own dependencies.
	"github.com/klauspost/compress", // nats.go: WebSocket compression
	"github.com/nats-io/nkeys",      // nats.go: credentials
	"github.com/nats-io/nuid",       // nats.go: inboxes
	"golang.org/x/crypto",           // nkeys
	"github.com/x448/float16",       // cbor: half floats
	"github.com/mattn/go-colorable", // zerolog: console writer
	"github.com/mattn/go-isatty",    // zerolog: console writer
}

// testHelpers may be imported by the tests of every package.
var testHelpers = []string{"bus/bustest", "bus/embed", "actor/actortest", "agent/agenttest",
	"internal/proctest", "internal/testkit", "internal/testproc", "internal/testmesh",
	"internal/testpage"}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A row with a package below it would allow a cycle.
func TestDAG_rowsImportOnlyRowsAbove(t *testing.T) { // REPO-1
	order, rows := parseTable(dag)
	for i, name := range order {
		require.NotEmptyf(t, rows[name].why, "row %s gives no reason", name)
		for _, imp := range rows[name].imports {
			require.Containsf(t, order[:i], imp, "row %s names %s: want a row above it", name, imp)
		}
		for _, imp := range rows[name].tests {
			require.Containsf(t, order, imp, "the tests of row %s name %s: want a row", name, imp)
		}
	}
}

func TestDAG_everyPackageIsListed(t *testing.T) { // REPO-1
	order, _ := parseTable(dag)
	for _, p := range everyPackage(t) {
		name := shortName(p.ImportPath)
		if name == "" { // the root, which holds only documentation and these tests
			continue
		}
		require.Containsf(t, order, name,
			"package %s is not in the DAG of deps_test.go: add a row with a reason", name)
	}
}

func TestDAG_everyImportIsAnEdge(t *testing.T) { // REPO-1
	_, rows := parseTable(dag)
	var wrong []string
	for _, p := range everyPackage(t) {
		from := shortName(p.ImportPath)
		row := rows[from]
		testsMay := slices.Concat(row.imports, row.tests, testHelpers, []string{from})
		check := func(imports, may []string, what string) {
			for _, imp := range imports {
				to := shortName(imp)
				kit := what == "" && to != "bus/embed" && slices.Contains(testHelpers, to) &&
					!slices.Contains(testHelpers, from)
				if isOurs(imp) && (kit || !slices.Contains(may, to)) {
					wrong = append(wrong, fmt.Sprintf("%s%s imports %s\n\t%s: %s\n\t%s: %s",
						from, what, to, from, row.why, to, rows[to].why))
				}
			}
		}
		check(p.Imports, row.imports, "")
		check(p.TestImports, testsMay, " (tests)")
		check(p.XTestImports, testsMay, " (tests)")
	}
	require.Empty(t, report(wrong), "imports without an edge of the DAG in deps_test.go")
}

func TestDAG_thirdPartyImportsStayWhereTheyBelong(t *testing.T) {
	_, rows := parseTable(thirdParty)
	var wrong []string
	for _, p := range everyPackage(t) {
		from := shortName(p.ImportPath)
		check := func(imports, who []string) {
			for _, imp := range imports {
				if isStandard(imp) || isOurs(imp) {
					continue
				}
				module := longestPrefix(rows, imp)
				if module == "" {
					wrong = append(wrong, fmt.Sprintf("%s imports %s, which deps_test.go does not know", from, imp))
					continue
				}
				row := rows[module]
				if !slices.ContainsFunc(who, func(w string) bool { return slices.Contains(row.imports, w) }) {
					wrong = append(wrong, fmt.Sprintf("%s imports %s\n\tonly for %v: %s", who[0], imp, row.imports, row.why))
				}
			}
		}
		check(p.Imports, []string{from})
		testers := []string{from + ":tests", from, "tests"}
		check(p.TestImports, testers)
		check(p.XTestImports, testers)
	}
	require.Empty(t, report(wrong), "third-party imports outside their place in deps_test.go")
}

func TestLibraryGraph_carriesOnlyTheAllowList(t *testing.T) {
	all, err := goList("-deps", "./mesh", "./agent/proc")
	require.NoError(t, err)
	for _, dep := range all {
		if dep.Module != nil {
			require.Containsf(t, libraryModules, dep.Module.Path,
				"%s drags %s in: every user of the library would build it", dep.ImportPath, dep.Module.Path)
		}
	}
}

// row is one line of a table with its reason.
type row struct {
	imports, tests []string
	why            string
}

// parseTable reads dag or thirdParty: its keys in order, and its rows.
func parseTable(text string) (order []string, rows map[string]row) {
	rows = map[string]row{}
	for line := range strings.Lines(text) {
		name, why := strings.TrimSpace(line), strings.HasPrefix(line, "\t")
		switch {
		case name == "":
		case why:
			last := rows[order[len(order)-1]]
			last.why = name
			rows[order[len(order)-1]] = last
		default:
			name, may, _ := strings.Cut(name, "<")
			imports, tests, _ := strings.Cut(may, ";")
			name = strings.TrimSpace(name)
			r := row{imports: strings.Fields(imports), tests: strings.Fields(tests)}
			if len(r.imports) > 0 && r.imports[0] == "*" {
				r.imports = append(slices.DeleteFunc(slices.Clone(order), isProgram), r.imports[1:]...)
			}
			order, rows[name] = append(order, name), r
		}
	}
	return order, rows
}

// listed is the used part of `go list -json`.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Module                             *struct{ Path string }
}

// everyPackage lists the packages of this module.
func everyPackage(t *testing.T) []listed {
	t.Helper()
	all, err := listedOnce()
	require.NoError(t, err)
	return all
}

var listedOnce = sync.OnceValues(func() ([]listed, error) { return goList("./...") })

// goList runs go list, once for each operating system with build tags in the code. It passes -e: a
// package that does not compile still has imports to check, and its own build reports its errors.
func goList(args ...string) ([]listed, error) {
	var all []listed
	for _, goos := range []string{"linux", "darwin"} {
		fields := "-json=ImportPath,Imports,TestImports,XTestImports,Module"
		cmd := exec.CommandContext(context.Background(), "go", append([]string{"list", "-e", fields}, args...)...)
		cmd.Env = append(os.Environ(), "GOOS="+goos)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%v: %w: %s", cmd.Args, err, stderr.String())
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listed
			err := dec.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("go list printed something else than JSON: %w", err)
			}
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("go list %v found no package", args)
	}
	return all, nil
}

// shortName is the import path inside this module; the root is "".
func shortName(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, modulePath), "/")
}

func isOurs(path string) bool {
	return path == modulePath || strings.HasPrefix(path, modulePath+"/")
}

func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func isProgram(name string) bool {
	return strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "examples/") ||
		strings.HasPrefix(name, "scripts/")
}

// longestPrefix is the key of the most specific row for path.
func longestPrefix(rows map[string]row, path string) (best string) {
	for module := range rows {
		if (path == module || strings.HasPrefix(path, module+"/")) && len(module) > len(best) {
			best = module
		}
	}
	return best
}

// report is the findings, each once, a line each; "" when there are none.
func report(lines []string) string {
	slices.Sort(lines)
	return strings.Join(slices.Compact(lines), "\n")
}

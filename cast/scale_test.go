package cast

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

var update = flag.Bool("cast.table", false, "write the table of docs/casting.md anew")

const table = "../docs/casting.md"

// A cast to 100,000 ranks on 12,500 hosts, through the production planner, router's header, tree
// and folder. The docs have its measured cost.
func TestCast_reachesAHundredThousandRanks(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine does it all: there is nothing to race")
	}
	extent := shape.Of("host", 12_500).With("gpu", 8)
	// a large mesh that still takes only a moment: its sum, its answers and no row of the table
	if !testkit.Long() && !*update {
		small := Placement{Mesh: testMesh, Extent: shape.Of("host", 1_250).With("gpu", 8), PerHost: 8,
			PerProcess: 8}
		measureRow(t, small, modeFold, 16)
		measureRow(t, small, modeCollect, 16)
		return
	}
	rows := []string{
		"| ranks in a process | verb | arity | publishes | header | messages | at home | bytes at home | most " +
			"at a host | bytes at most | hops |",
		"|---|---|---|---|---|---|---|---|---|---|---|",
	}
	for _, c := range []struct {
		perProcess int
		mode       mode
		arity      int
	}{
		{1, modeFold, 4}, {1, modeFold, 16}, {1, modeFold, 64}, {8, modeFold, 4}, {8, modeFold, 16},
		{8, modeFold, 64},
		{8, modeFold, 12_500}, {1, modeCollect, 16}, {8, modeCollect, 16},
	} {
		if (c.perProcess == 1 || c.arity != 16) && !*update { // they take a while
			continue
		}
		rows = append(rows, measureRow(t, Placement{Mesh: testMesh, Extent: extent, PerHost: 8,
			PerProcess: c.perProcess}, c.mode, c.arity))
	}
	text, err := os.ReadFile(table)
	require.NoError(t, err)
	const from, to = "<!-- table -->\n", "<!-- end -->"
	before, rest, _ := strings.Cut(string(text), from)
	old, after, ok := strings.Cut(rest, to)
	require.True(t, ok, "no place for the table in %s", table)
	if *update {
		all := before + from + strings.Join(rows, "\n") + "\n" + to + after
		require.NoError(t, os.WriteFile(table, []byte(all), 0o644))
		return
	}
	for _, row := range rows {
		require.Contains(t, old, row, "go test -run %s ./cast -cast.table rewrites it", t.Name())
	}
}

// measureRow is one row.
func measureRow(t *testing.T, place Placement, m mode, arity int) string {
	h := header{Region: place.Extent.Region(), Mode: m, Arity: arity,
		ReplyPort: subjects.ProcID{Mesh: testMesh}.Actor("client").Port("_1").String(), Reducer: nameSum}
	f := newFlight(h.tree(place), m, 1)
	sum := 0
	f.answer = func(view int) any { return view % 100 }
	f.by = untypedReducer{lift: actor.DecodeAnswer[any], open: actor.DecodeAnswer[any], fold: builtins[nameSum]}
	if m == modeCollect {
		f.by = packReducer
	}
	f.bytes = map[subjects.ProcID]int{}
	f.size = func(c contribution) int {
		values, ext, err := c.encode(h.ReplyPort)
		require.NoError(t, err)
		body, err := wire.Marshal(values)
		require.NoError(t, err)
		return len(body) + len(ext)
	}
	members := membersOf(place, h.Region)
	plan := planFor(place, members)
	publishes := plan.deliveries(members)
	way := &route{tree: tree{placement: place, region: h.Region}}
	h.Prevs = way.prevs(packet{members: publishes[0]}, []link.Run{{Count: len(members), Prev: 1_000_000}})
	ext, err := wire.Marshal(h)
	require.NoError(t, err)

	f.run()
	require.Zero(t, f.home.pending)
	require.Equal(t, place.Extent.NumRanks(), f.home.coverage().Answered)
	want := 0
	for view := range place.Extent.NumRanks() {
		want += view % 100
	}
	for _, p := range f.home.parts {
		if m == modeFold {
			sum += p.value.Value.(int)
			continue
		}
		values := make([]int, place.Extent.NumRanks())
		spreadPart(f.home.collector, p, values)
		for _, v := range values {
			sum += v
		}
	}
	require.Equal(t, want, sum)
	most, bytes := 0, 0
	perHost := map[int][2]int{}
	for id := range f.procs {
		host := place.hostOf(int(id.Rank))
		perHost[host] = [2]int{perHost[host][0] + f.received[id], perHost[host][1] + f.bytes[id]}
	}
	for _, n := range perHost {
		most, bytes = max(most, n[0]), max(bytes, n[1])
	}
	home := subjects.ProcID{}
	verb := map[mode]string{modeFold: "Reduce", modeCollect: "Gather"}[m]
	return fmt.Sprintf("| %d | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |", place.PerProcess, verb, arity,
		len(publishes), len(ext),
		f.messages, f.received[home], f.bytes[home], most, bytes, f.depth[home])
}

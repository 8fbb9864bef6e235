package cast

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/internal/link"
	"github.com/castnet-io/castnet/internal/wire"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// The cost of a send to some processes by each route: the figures behind the constants of plan.go.
// All of it, the server's share too, is CPU time of this process, so other programs on the machine
// do not count.

type counted struct{}

var (
	countedType = actor.NewType[*counted, actor.None]("counted")
	countNote   = actor.NewEndpoint[*counted, int, actor.None]("note")
)

// lineUp is a mesh of processes in a row.
type lineUp struct {
	via    *actor.Proc
	place  Placement
	region shape.Region
}

func (l lineUp) Target() (Target, error) {
	return Target{Via: l.via, Placement: l.place, Actor: "members", Region: l.region}, nil
}

func (l lineUp) Ref(rank int) actor.Ref[*counted] {
	return actor.RefOf[*counted](l.place.Proc(rank).Actor("members"))
}

func newLineUp(b *testing.B, n int) (lineUp, *Router) {
	srv := bustest.Server(b)
	e := shape.Of("rank", n)
	l := lineUp{place: Placement{Mesh: testMesh, Extent: e, PerHost: 1}, region: e.Region()}
	start := func(id subjects.ProcID, m *Member) (*actor.Proc, *Router) {
		registry, err := actor.NewRegistry(countedType.Define(
			func(*actor.Context, actor.None) (*counted, error) { return &counted{}, nil },
			countNote.Handle(func(*counted, *actor.Context, int) (actor.None, error) { return actor.None{}, nil })))
		require.NoError(b, err)
		p, err := actor.NewProc(b.Context(), actor.Options{ID: id, Bus: bustest.Open(b, srv), Registry: registry})
		require.NoError(b, err)
		r, err := Start(p, m)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, p.Close(context.Background())); r.Close() })
		if m != nil {
			_, err = p.Spawn(b.Context(), actor.SpawnSpec{Type: "counted", Name: "members", Params: actor.None{}})
			require.NoError(b, err)
		}
		return p, r
	}
	for rank := range n {
		start(l.place.Proc(rank), &Member{Placement: l.place, Rank: rank})
	}
	mesh, err := subjects.NewMeshID("client")
	require.NoError(b, err)
	var r *Router
	l.via, r = start(subjects.ProcID{Mesh: mesh}, nil)
	return l, r
}

// way makes casts to a region leave as one packet to a token, or, for "", as one to each member.
func (r *Router) way(b *testing.B, l lineUp, where string) {
	rt := &route{localFirst: -1, procChanges: r.p.Members().ChangeCount(l.place.Mesh),
		tree: tree{placement: l.place, region: l.region}}
	asked := Target{Region: l.region}.ranks()
	key, err := asked.MarshalBinary()
	require.NoError(b, err)
	k := packet{where: where, members: rt.members(r.p, asked)}
	var to []subjects.PortID
	for _, m := range k.members {
		to = append(to, m.id.Actor("members").Port(countNote.Name()))
	}
	k.group, err = r.p.Casts().Group(to)
	require.NoError(b, err)
	rt.packets = []packet{k}
	r.routes.all = map[routeKey]*route{{l.place.Mesh, "members", countNote.Name(), l.region.String(),
		string(key)}: rt}
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{2, 34} {
		for way, where := range map[string]string{"alone": "", "published": wildcard, "in vain": wildcard} {
			b.Run(way+"/"+strconv.Itoa(n), func(b *testing.B) {
				l, r := newLineUp(b, n)
				if way == "in vain" { // to all but one
					var err error
					l.region, err = l.region.Slice("rank", 0, 1)
					require.NoError(b, err)
				}
				r.way(b, l, where)
				post := func(posts int) {
					for i := range posts {
						require.NoError(b, Send(b.Context(), l, countNote, i))
						if i%64 == 63 {
							require.NoError(b, l.via.Flush(b.Context()))
						}
					}
					require.NoError(b, l.via.Flush(b.Context()))
				}
				post(256)
				began := cpu(b)
				b.ResetTimer()
				post(b.N)
				b.ReportMetric(float64((cpu(b)-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// cpu is the processor time of this process.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSequenceNumbers measures the sequence numbers of a cast to 100,000 ranks: they are read
// from the links, spread over the ranks and encoded, and one rank decodes its own.
func BenchmarkSequenceNumbers(b *testing.B) {
	const n = 100_000
	e := shape.Of("rank", n)
	place := Placement{Mesh: testMesh, Extent: e, PerHost: 8}
	way := &route{tree: tree{placement: place, region: e.Region()}}
	k := packet{members: membersOf(place, e.Region())}
	for name, strays := range map[string]int{"alike": 0, "1% strays": n / 100, "each its own": n} {
		links := []link.Run{{Count: n, Prev: 1_000_000}}
		if strays > 0 {
			links = nil
			for i := range strays {
				links = append(links, link.Run{Count: 1, Prev: uint64(1_000_000 + i)})
				if rest := n/strays - 1; rest > 0 {
					links = append(links, link.Run{Count: rest, Prev: 1_000_000})
				}
			}
		}
		b.Run(name, func(b *testing.B) {
			var ext []byte
			var reading time.Duration
			for b.Loop() {
				h := header{Region: e.Region(), Mode: modeFold, Reducer: nameSum, Prevs: way.prevs(k, links)}
				var err error
				ext, err = wire.Marshal(h)
				require.NoError(b, err)
				var got header
				began := time.Now()
				require.NoError(b, got.decode(ext))
				_, err = got.prev(n / 2)
				require.NoError(b, err)
				reading += time.Since(began)
			}
			b.ReportMetric(float64(len(ext)), "bytes")
			b.ReportMetric(float64(reading.Microseconds())/float64(b.N), "µs/read")
		})
	}
}

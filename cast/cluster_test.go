package cast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus/bustest"
	"github.com/castnet-io/castnet/bus/embed"
	"github.com/castnet-io/castnet/cast"
	"github.com/castnet-io/castnet/internal/testkit"
	"github.com/castnet-io/castnet/internal/testproc"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/subjects"
)

// Endpoints of the members of a test's mesh. All are of type *member.
var (
	memberType = actor.NewType[*member, int]("member")
	// recorded, with point and sender
	note   = actor.NewEndpoint[*member, int, actor.None]("note")
	who    = actor.NewEndpoint[*member, actor.None, int]("who", bad)    // its rank in the mesh
	name   = actor.NewEndpoint[*member, string, string]("name", concat) // the text and its rank
	odd    = actor.NewEndpoint[*member, actor.None, bool]("odd")        // whether its rank is
	refuse = actor.NewEndpoint[*member, int, int]("refuse", bad)        // fails on that rank
	// on that rank for the rest of the test
	wait = actor.NewEndpoint[*member, int, int]("wait")
	// sends wait to that rank, and answers
	thenWait = actor.NewEndpoint[*member, int, int]("thenWait")
	// casts name to its own mesh and answers the fold
	relay = actor.NewEndpoint[*member, string, string]("relay", concat)

	// does so in Context.Go
	later = actor.NewEndpoint[*member, string, string]("later", concat)

	traced = actor.NewEndpoint[*member, actor.None, string]("traced", concat) // as a traceparent

	until = actor.NewEndpoint[*member, actor.None, int]("until") // nobody waits any more

	choose = actor.NewEndpoint[*member, actor.None, int]("choose") // a rank of its own mesh

	list = actor.NewEndpoint[*member, actor.None, []int]("list") // its rank, twice
	tags = actor.NewEndpoint[*member, actor.None, map[string]int]("tags", cast.Merge[map[string]int](last))

	last    = actor.NewReducer("last", func(_, b int) (int, error) { return b, nil })
	concat  = actor.NewReducer("concat", func(a, b string) (string, error) { return a + " " + b, nil })
	bad     = actor.NewReducer("bad", func(int, int) (int, error) { panic("cannot fold") })
	unknown = actor.NewReducer("unknown", func(a, b int) (int, error) { return a + b, nil })
)

// member is one rank; it records its messages.
type member struct {
	rank int
	book *book
}

func (m *member) note(ctx *actor.Context, n int) (actor.None, error) {
	m.book.Add(entry{m.rank, n, ctx.Point().String(), ctx.Point().Rank(), ctx.Sender().String()})
	return actor.None{}, nil
}

func (m *member) who(*actor.Context, actor.None) (int, error)  { return m.rank, nil }
func (m *member) odd(*actor.Context, actor.None) (bool, error) { return m.rank%2 == 1, nil }

func (m *member) list(*actor.Context, actor.None) ([]int, error) {
	return []int{m.rank, m.rank}, nil
}

func (m *member) tags(*actor.Context, actor.None) (map[string]int, error) {
	return map[string]int{"all": 1, []string{"even", "odd"}[m.rank%2]: 1}, nil
}

func (m *member) name(_ *actor.Context, s string) (string, error) {
	return fmt.Sprintf("%s%d", s, m.rank), nil
}

func (m *member) refuse(_ *actor.Context, rank int) (int, error) {
	if m.rank == rank {
		return 0, errors.New("not today")
	}
	return m.rank, nil
}

func (m *member) wait(_ *actor.Context, rank int) (int, error) {
	if m.rank == rank {
		m.book.Add(entry{rank: rank})
		<-m.book.done
	}
	return m.rank, nil
}

func (m *member) thenWait(ctx *actor.Context, rank int) (int, error) {
	if m.rank%4 != 3 {
		return m.rank, nil
	}
	return m.rank, wait.Send(ctx, m.book.members.Ref(rank), rank)
}

func (m *member) until(ctx *actor.Context, _ actor.None) (int, error) {
	m.book.Add(entry{rank: m.rank, n: 1})
	<-ctx.Done()
	m.book.Add(entry{rank: m.rank, n: 2})
	return 0, ctx.Err()
}

func (m *member) traced(ctx *actor.Context, _ actor.None) (string, error) {
	return ctx.Trace().String(), nil
}

func (m *member) choose(ctx *actor.Context, _ actor.None) (int, error) {
	return cast.Choose(ctx, m.book.members, who, actor.None{})
}

func (m *member) relay(ctx *actor.Context, s string) (string, error) {
	return cast.Reduce(ctx, m.book.members, name, s, concat)
}

func (m *member) later(ctx *actor.Context, s string) (string, error) {
	answer := actor.Defer[string](ctx)
	ctx.Go(func(work context.Context) func(*actor.Context) {
		answer.Reply(cast.Reduce(work, m.book.members, name, s, concat))
		return nil
	})
	return "", nil
}

// entry is one message at a member.
type entry struct {
	rank, n int
	point   string
	view    int
	sender  string
}

// book collects the messages of all members.
type book struct {
	testkit.Notes[entry]
	members members
	done    chan struct{} // closed when the test is over
}

// members is a region of the test's mesh, as package mesh returns one to users.
type members struct {
	via    *actor.Proc
	place  cast.Placement
	region shape.Region
	err    error
}

func (m members) Target() (cast.Target, error) {
	return cast.Target{Via: m.via, Placement: m.place, Actor: "members", Region: m.region}, m.err
}

func (m members) Ref(rank int) actor.Ref[*member] {
	base, err := m.region.BaseRank(rank)
	if err != nil {
		return actor.ErrRef[*member](err)
	}
	return actor.RefOf[*member](m.place.Proc(base).Actor("members"))
}

// in is the part of the mesh selected by a text.
func (m members) in(t *testing.T, text string) members {
	t.Helper()
	r, err := shape.Select(m.place.Extent, text)
	require.NoError(t, err)
	m.region = r
	return m
}

// cluster is a mesh of procs in this process, each with connections of its own, and a client.
type cluster struct {
	members
	*book
	server *embed.Server
	client *actor.Proc
	procs  []*actor.Proc
	log    zerolog.Logger
	tracer actor.Tracer    // nil: none
	system subjects.Sender // of a system controller
}

func newCluster(t testing.TB, extent shape.Extent, perHost int) *cluster {
	t.Helper()
	return newCrowd(t, extent, perHost, 1)
}

// newCrowd is a cluster with several ranks in one process.
func newCrowd(t testing.TB, extent shape.Extent, perHost, perProcess int) *cluster {
	t.Helper()
	return newCrowdAgain(t, extent, perHost, perProcess, nil)
}

// newCrowdAgain is a crowd with restarted processes: gens has their generations by first rank. The
// earlier generations never answer.
func newCrowdAgain(t testing.TB, extent shape.Extent, perHost, perProcess int, gens map[int]uint32) *cluster {
	t.Helper()
	return newCrowdWith(t, extent, perHost, perProcess, gens, nil)
}

// newCrowdWith is newCrowdAgain with a tracer in all procs.
func newCrowdWith(t testing.TB, extent shape.Extent, perHost, perProcess int, gens map[int]uint32,
	tracer actor.Tracer) *cluster {
	t.Helper()
	c := &cluster{server: bustest.Server(t), log: testkit.Log(t), tracer: tracer}
	c.system = subjects.NewSender(subjects.System.Principal("s"), testproc.HostID(t, "s").Proc().Process())
	c.book = &book{done: make(chan struct{})}
	c.place, c.region = cast.Placement{Mesh: testproc.MeshID(t, "mesh"), Extent: extent, PerHost: perHost,
		PerProcess: perProcess}, extent.Region()
	c.client = c.start(t, subjects.ProcID{}, nil)
	c.book.members = c.members
	c.via = c.client
	for rank := range extent.NumRanks() {
		id := c.place.Proc(rank)
		id.Gen = gens[int(id.Lead().Rank)]
		c.procs = append(c.procs, c.startMember(t, id))
	}
	t.Cleanup(func() { close(c.done) })
	return c
}

// startMember is the proc of a rank, with its actor.
func (c *cluster) startMember(t testing.TB, id subjects.ProcID) *actor.Proc {
	t.Helper()
	rank := int(id.Rank)
	p := c.start(t, id, &cast.Member{Placement: c.place, Rank: rank})
	point, err := c.place.Extent.Point(rank)
	require.NoError(t, err)
	_, err = p.Spawn(t.Context(), actor.SpawnSpec{Type: "member", Name: "members", Params: rank, Point: point})
	require.NoError(t, err)
	return p
}

// start is one proc with its router, ended when the test is.
func (c *cluster) start(t testing.TB, id subjects.ProcID, m *cast.Member) *actor.Proc {
	t.Helper()
	def := memberType.Define(func(ctx *actor.Context, rank int) (*member,
		error) {
		return &member{rank, c.book}, nil
	},
		note.Handle((*member).note), who.Handle((*member).who), name.Handle((*member).name),
		odd.Handle((*member).odd),
		refuse.Handle((*member).refuse), wait.Handle((*member).wait),
		thenWait.Handle((*member).thenWait), relay.Handle((*member).relay),
		list.Handle((*member).list), until.Handle((*member).until), tags.Handle((*member).tags),
		choose.Handle((*member).choose), traced.Handle((*member).traced), later.Handle((*member).later))
	o := testproc.Options{Options: actor.Options{ID: id, Log: c.log, Tracer: c.tracer}, Member: m}
	if id.Index > 0 {
		o.Lead = c.procs[id.Rank-id.Index]
	}
	p, _ := testproc.Start(t, c.server, o, def)
	return p
}

// publishEnd publishes the end of a rank's proc as a system controller does.
func (c *cluster) publishEnd(rank int) {
	e := actor.Event{
		Kind: actor.KindProc, Status: string(actor.Failed), Mesh: c.place.Mesh.String(), Rank: rank,
		ProcIndex: rank % c.place.PerProcess,
		Reason:    "killed by signal 9", At: time.Now(),
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	at := c.client.Space().Event(e.Kind, e.Proc().Scope(), c.system)
	if err := c.client.Bus().Control().Publish(at, data); err != nil {
		panic(err)
	}
}

// twoByFour is two hosts with four ranks each.
func twoByFour() shape.Extent { return shape.Of("host", 2).With("gpu", 4) }

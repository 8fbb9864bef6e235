package stacks

import (
	"bytes"
	"regexp"
	"runtime/pprof"
	"testing"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/shape"
)

// sample is a goroutine profile of stacks, each with its functions from the innermost on.
func sample(t *testing.T, stacks ...[]string) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "goroutine", Unit: "count"}}}
	id := uint64(0)
	for _, functions := range stacks {
		s := &profile.Sample{Value: []int64{1}}
		for i, name := range functions {
			id++
			f := &profile.Function{ID: id, Name: name, Filename: "/src/file.go"}
			at := &profile.Location{ID: id, Line: []profile.Line{{Function: f, Line: int64(i + 1)}}}
			p.Function = append(p.Function, f)
			p.Location = append(p.Location, at)
			s.Location = append(s.Location, at)
		}
		p.Sample = append(p.Sample, s)
	}
	var b bytes.Buffer
	require.NoError(t, p.Write(&b))
	return b.Bytes()
}

func TestGroup_equalStacksOfRanksAreOne(t *testing.T) {
	t.Parallel()
	step := []string{"example.com/train.(*T).step", "github.com/castnet-io/castnet/actor.(*worker).run"}
	idle := []string{"runtime.gopark", "github.com/nats-io/nats%2ego.(*Conn).readLoop"}
	base := shape.Of("gpu", 4)
	profiles := map[int][]byte{0: sample(t, step, idle), 1: sample(t, step, step, idle), 3: sample(t, idle)}
	found, err := Group(base, profiles, false)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, Print(&b, found))
	require.Equal(t, `[gpu=0:2] 3 goroutines
  example.com/train.(*T).step file.go:1
  github.com/castnet-io/castnet/actor.(*worker).run file.go:2
`, b.String())

	found, err = Group(base, profiles, true)
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.Equal(t, []int{0, 1, 3}, found[1].Ranks)
}

func TestIsOwn_programsAndLibrariesOfOthersAreNot(t *testing.T) {
	t.Parallel()
	for function, own := range map[string]bool{
		"runtime.gopark": true, "net/http.(*conn).serve": true, "main.main": false, "main.(*T).step": false,
		"github.com/castnet-io/castnet/actor.(*worker).run":        true,
		"github.com/castnet-io/castnet/agent/proc.(*router).run":   true,
		"github.com/castnet-io/castnet/internal/builtin.(*c).add":  false,
		"github.com/nats-io/nats%2ego.(*Conn).readLoop":            true,
		"github.com/castnet-io/castnet/examples/sieve.(*s).filter": false, "example.com/train.(*T).step": false,
	} {
		require.Equal(t, own, isOwn(function), function)
	}
}

func TestMerge_addsUpRealProfiles(t *testing.T) {
	t.Parallel()
	var one, sum bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&one, 0))
	require.NoError(t, Merge(&sum, map[int][]byte{0: one.Bytes(), 1: one.Bytes()}))
	p, err := profile.Parse(&sum)
	require.NoError(t, err)
	alone, err := profile.Parse(&one)
	require.NoError(t, err)
	total := func(p *profile.Profile) (n int64) {
		for _, s := range p.Sample {
			n += s.Value[0]
		}
		return n
	}
	require.Equal(t, 2*total(alone), total(p))
}

func TestGroup_foreignBytesAreAnError(t *testing.T) {
	t.Parallel()
	_, err := Group(shape.Extent{}, map[int][]byte{2: []byte("no profile")}, true)
	require.Regexp(t, regexp.MustCompile("^cannot read the stacks of rank 2: "), err.Error())
	require.ErrorContains(t, Merge(&bytes.Buffer{}, map[int][]byte{2: []byte("x")}), "rank 2")
}

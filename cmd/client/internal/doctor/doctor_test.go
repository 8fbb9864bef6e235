package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/agent"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/internal/cli"
	"github.com/castnet-io/castnet/subjects"
)

// covers reports whether a grant covers a subject or a filter.
func covers(grant, subject string) bool {
	tokens := strings.Split(subject, ".")
	of := strings.Split(grant, ".")
	for i, g := range of {
		if g == ">" {
			return len(tokens) > i
		}
		if i >= len(tokens) || g != "*" && g != tokens[i] {
			return false
		}
	}
	return len(of) == len(tokens)
}

func TestProbes_tryEachGrantOnce(t *testing.T) {
	id, err := subjects.NewMeshID("doctor")
	require.NoError(t, err)
	space, err := subjects.NewSpace("root", "lab")
	require.NoError(t, err)
	alice := subjects.User{Principal: subjects.UserPrincipal(subjects.Operator, "alice")}
	grants := space.Grants(alice)
	grants.Publish = slices.DeleteFunc(grants.Publish, func(g string) bool {
		return strings.Contains(g, ".cast.") || g == subjects.UserInfo
	})
	for _, process := range []subjects.ProcessID{{}, subjects.ProcID{Mesh: id}.Process()} {
		all := map[bus.Op][]string{}
		for _, p := range probes(space, subjects.User{Principal: alice.Principal, Process: process}) {
			if p.grant != alice.Inbox()+".>" {
				require.True(t, covers(p.grant, p.subject), "%+v", p)
			}
			all[p.op] = append(all[p.op], p.grant)
		}
		require.Equal(t, map[bus.Op][]string{bus.OpPublish: grants.Publish, bus.OpSubscribe: grants.Subscribe}, all)
	}
}

// hostAnswer is the answer of a host.
func hostAnswer(t *testing.T, label string, change ...func(*hostCheck)) hostCheck {
	t.Helper()
	id, err := subjects.NewHostID(label)
	require.NoError(t, err)
	a := hostCheck{id: id, took: time.Millisecond,
		info: agent.HostInfo{ID: id, Label: id.Label(), Version: cli.Version(), Build: "b1", Now: time.Now()}}
	for _, f := range change {
		f(&a)
	}
	return a
}

func TestJetStream_isJudgedByWhatTheSystemControllerUses(t *testing.T) {
	for _, err := range []error{bus.ErrNoResponders, context.DeadlineExceeded, errors.New("not enabled")} {
		f := judgeJetStream(jetStreamInfo{}, err, true)
		require.Equal(t, ResultOK, f.Result, "%v", err)
		require.Empty(t, f.Suggestion)
		require.Equal(t, ResultWarn, judgeJetStream(jetStreamInfo{}, err, false).Result, "%v", err)
	}
	leaderless := judgeJetStream(jetStreamInfo{}, context.DeadlineExceeded, false)
	require.Contains(t, leaderless.Suggestion, "leader")
	require.NotContains(t, leaderless.Suggestion, "--data")
}

func TestSurvey_namesSilentSlowAndForeignBuildHosts(t *testing.T) {
	silent := hostAnswer(t, "s", func(a *hostCheck) { a.err = errors.New("no answer") })
	slow := hostAnswer(t, "l", func(a *hostCheck) { a.lag = 2 * time.Second })
	other := hostAnswer(t, "o", func(a *hostCheck) { a.info.Build = "b2" })
	fine := hostAnswer(t, "f")
	for _, tc := range []struct {
		answers []hostCheck
		result  string
		found   string
	}{
		{[]hostCheck{fine, other}, ResultOK, "2 of 2 answer"},
		{[]hostCheck{fine, slow}, ResultWarn, "2 of 2 answer; slow: l (2s)"},
		{[]hostCheck{fine, slow, silent}, ResultFail, "2 of 3 answer; silent: s"},
	} {
		f := hostSurvey{answers: tc.answers, beating: len(tc.answers)}.hosts()
		require.Equal(t, []string{tc.result, tc.found}, []string{f.Result, f.Found})
	}
	require.Equal(t, "1 of 1 answer; heartbeats from 0 of them",
		hostSurvey{answers: []hostCheck{fine}}.hosts().Found)
	unlisted := hostSurvey{answers: []hostCheck{fine}, beating: 1, unlisted: true}.hosts()
	require.Equal(t, ResultFail, unlisted.Result)
	require.True(t, unlisted.partial)

	v := hostSurvey{answers: []hostCheck{fine, fine, other, silent}}.versions()
	require.Equal(t, ResultWarn, v.Result)
	require.Equal(t, fmt.Sprintf("castnet %[1]s; hostd %[1]s (build b1) on f, f; hostd %[1]s (build b2) on o",
		cli.Version()), v.Found)
	require.Equal(t, ResultOK, hostSurvey{answers: []hostCheck{fine}}.versions().Result)
}

func TestSurvey_warnsOfClockSkew(t *testing.T) {
	ahead := hostAnswer(t, "x", func(a *hostCheck) { a.skew = 1500 * time.Millisecond })
	far := hostAnswer(t, "y", func(a *hostCheck) { a.skew, a.took = 1500*time.Millisecond, 2*time.Second })
	f := hostSurvey{answers: []hostCheck{ahead, far}}.clocks()
	require.Equal(t, ResultWarn, f.Result)
	require.Equal(t, "clock differs from this machine: x (+1.5s)", f.Found,
		"the round trip is no skew")
	require.Equal(t, ResultOK, hostSurvey{answers: []hostCheck{far}}.clocks().Result)
	require.Equal(t, ResultOK, hostSurvey{answers: []hostCheck{far}}.logs().Result)
	far.info.LogTrouble = "the disk of /var is nearly full"
	f = hostSurvey{answers: []hostCheck{ahead, far}}.logs()
	require.Equal(t, []any{ResultWarn, far.id.Label() + ": the disk of /var is nearly full"}, []any{f.Result, f.Found})
}

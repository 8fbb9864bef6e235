package system

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Takers are refused names of a possible earlier reservation. A joining host takes no name: its
// world may be one of the earlier controller (WORLD-17, WORLD-14).
func TestReservations_hostIsAdmittedBeforeItsNameIsReserved(t *testing.T) {
	early, unknown := errors.New("try again in 29s"), errors.New("not all hosts have said")
	mesh := &NameTakenError{Name: "w", Kind: kindMesh}
	for name, c := range map[string]struct {
		hosts nameCheck
		who   any
		want  error
	}{
		"a host, early":         {nameCheck{tooEarly: early}, join{}, nil},
		"a program, early":      {nameCheck{tooEarly: early}, reserve{}, early},
		"a declaration, early":  {nameCheck{tooEarly: early}, upsert{}, early},
		"a host, a silent host": {nameCheck{tooEarly: early, err: unknown}, join{}, unknown},
		"a program, then":       {nameCheck{}, reserve{}, nil},
		"a host, a live mesh":   {nameCheck{holder: mesh}, join{}, mesh},
	} {
		require.Equal(t, c.want, c.hosts.refusal(c.who), name)
	}
}

// A host leaves while its join waits for a name. It does not join afterwards.
func TestNames_waitingJoinOfALeavingHostIsRefused(t *testing.T) {
	s := newScenario(t)
	var told []error
	ask := func(host, world string) queryName {
		e := s.event("host", []string{host, "0", world}, nil).(join)
		e.from = replyFunc(func(err error) { told = append(told, err) })
		return queryName{world, e}
	}
	q := nameQueue{waiting: []queryName{ask("a", "red"), ask("b", "red")},
		asked: []queryName{{"blue", upsert{}}, ask("a", "blue")}}
	q.dropJoins(s.host("a"))
	require.Len(t, q.waiting, 1)
	require.Equal(t, s.host("b"), q.waiting[0].request.(join).Host.ID)
	require.Len(t, q.asked, 1)
	require.Len(t, told, 2)
	require.EqualError(t, told[0], "the host has left")
}

// replyFunc is a caller for errors only.
type replyFunc func(error)

func (f replyFunc) reply(_ any, err error) { f(err) }

package system

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names that an earlier controller may have given away are refused to those that take one. A host that offers
// itself takes none: its world may be one that the earlier controller had (WORLD-17, WORLD-14).
func TestReservations_hostIsAdmittedBeforeItsNameIsReserved(t *testing.T) {
	early, unknown := errors.New("try again in 29s"), errors.New("not all hosts have said")
	mesh := &NameTakenError{Name: "w", Kind: kindMesh}
	for name, c := range map[string]struct {
		heard nameResult
		who   any
		want  error
	}{
		"a host, early":         {nameResult{tooEarly: early}, join{}, nil},
		"a program, early":      {nameResult{tooEarly: early}, reserve{}, early},
		"a declaration, early":  {nameResult{tooEarly: early}, upsert{}, early},
		"a host, a silent host": {nameResult{tooEarly: early, err: unknown}, join{}, unknown},
		"a program, then":       {nameResult{}, reserve{}, nil},
		"a host, a live mesh":   {nameResult{holder: mesh}, join{}, mesh},
	} {
		require.Equal(t, c.want, c.heard.refusal(c.who), name)
	}
}

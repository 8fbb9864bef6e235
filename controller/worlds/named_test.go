package worlds

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names that an earlier controller may have given away are refused to those that take one. A host that offers
// itself takes none: its world may be one that the earlier controller had (WORLD-17, WORLD-14).
func TestNamed_aHostIsAdmittedWhereANameCannotBeTakenYet(t *testing.T) {
	early, unknown := errors.New("try again in 29s"), errors.New("not all hosts have said")
	mesh := &NameTakenError{Name: "w", Kind: kindMesh}
	for name, c := range map[string]struct {
		heard named
		who   any
		want  error
	}{
		"a host, early":         {named{early: early}, join{}, nil},
		"a program, early":      {named{early: early}, reserve{}, early},
		"a declaration, early":  {named{early: early}, upsert{}, early},
		"a host, a silent host": {named{early: early, err: unknown}, join{}, unknown},
		"a program, then":       {named{}, reserve{}, nil},
		"a host, a live mesh":   {named{holder: mesh}, join{}, mesh},
	} {
		require.Equal(t, c.want, c.heard.refuses(c.who), name)
	}
}

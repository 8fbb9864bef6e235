package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/mesh"
)

func TestNotFoundError_namesAFewOfMany(t *testing.T) {
	many := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	require.EqualError(t, &mesh.NotFoundError{What: "mesh", Name: "x", Known: many},
		`mesh "x" does not exist; there is a, b, c, d, e, f, g, h, and 2 more`)
	require.EqualError(t, &mesh.AmbiguousError{What: "mesh", Name: "x", Candidates: many[:2]}, `mesh "x" is ambiguous: want one of a, b`)
	require.Len(t, many, 10)
	require.Equal(t, "i", many[8], "what it has is left alone")
}

package subjects_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/subjects"
)

func TestPrincipal_isItsTextInFiles_SUB1(t *testing.T) {
	for _, role := range subjects.AllRoles() {
		want := role.Principal("n07")
		text, err := json.Marshal(want)
		require.NoError(t, err)
		var got subjects.Principal
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, want, got)
	}
	_, err := subjects.Principal{}.MarshalText()
	require.Error(t, err)
	for _, text := range []string{"", "u", "u-", "u-*", "u->", "u-a.b", "x-a", "u-{{name()}}"} {
		require.Error(t, new(subjects.Principal).UnmarshalText([]byte(text)), text)
	}
}

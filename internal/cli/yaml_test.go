package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestParseYAML_keepsOrderAndPositions(t *testing.T) {
	docs, err := cli.ParseYAML("f", []byte("b: 1\na: [x, {y: null}]\n---\ntext\n"))
	require.NoError(t, err)
	require.Len(t, docs, 2)
	require.Equal(t, []cli.Field{
		{Key: "b", Position: "f:1:1", Value: cli.Value{Position: "f:1:4", Text: "1", IsText: true}},
		{Key: "a", Position: "f:2:1", Value: cli.Value{Position: "f:2:4", List: []cli.Value{
			{Position: "f:2:5", Text: "x", IsText: true},
			{Position: "f:2:8", Fields: []cli.Field{{Key: "y", Position: "f:2:9",
				Value: cli.Value{Position: "f:2:12", Text: "null"}}}},
		}}},
	}, docs[0].Fields)
	require.Equal(t, "text", docs[1].Text)
	none, err := cli.ParseYAML("f", []byte("# nothing\n"))
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestParseYAML_errorsNameLineAndColumn(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\na: 2\n":            `f:2:1: "a" is set already: f:1:1`,
		"a: &x 1\nb: *x\n":        `f:2:4: want a value: no alias`,
		"? [a]\n: 1\n":            `f:1:3: want the name of a key`,
		"a: 1: 2\n":               `f: mapping values are not allowed in this context`,
		"[[[[[[[[[[1]]]]]]]]]]\n": `f:1:9: want at most 8 levels`,
	} {
		_, err := cli.ParseYAML("f", []byte(text))
		require.EqualError(t, err, want, text)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
	_, err := cli.ParseYAML("f", make([]byte, 2<<20))
	require.ErrorContains(t, err, "f: more than 1048576 bytes")
}

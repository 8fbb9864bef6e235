package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShorten_smallDocumentsStayWhole_MCP3(t *testing.T) {
	short, note, err := shorten([]byte("{\n  \"b\": 1e400,\n  \"a\": \"<&>\"\n}\n"), 100, false)
	require.NoError(t, err)
	require.Equal(t, `{"b":1e400,"a":"<&>"}`, short)
	require.Empty(t, note)
}

func TestShorten_cutsLongListsAndSaysWhich_MCP3(t *testing.T) {
	type item struct {
		Rank int    `json:"rank"`
		Line string `json:"line"`
	}
	doc := struct {
		Name  string `json:"name"`
		Procs []item `json:"procs"`
		Hosts []int  `json:"hosts"`
	}{Name: strings.Repeat("ü", 40_000), Hosts: []int{1, 2, 3}}
	for i := range 5000 {
		doc.Procs = append(doc.Procs, item{i, "x"})
	}
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	for _, newest := range []bool{false, true} {
		short, note, err := shorten(text, maxResult, newest)
		require.NoError(t, err)
		require.LessOrEqual(t, len(short), maxResult)
		got := doc
		got.Procs, got.Hosts = nil, nil
		require.NoError(t, json.Unmarshal([]byte(short), &got))
		require.Equal(t, []int{1, 2, 3}, got.Hosts)
		require.Len(t, got.Procs, 512)
		kept := map[bool]string{false: "first", true: "last"}[newest]
		require.Equal(t, "The result was cut to 48 KiB: procs has the "+kept+" 512 of 5000 items; "+
			"1 long text cut at …. Ask for a region or for less to see the others.", note)
		if newest {
			require.Equal(t, 4999, got.Procs[511].Rank)
		} else {
			require.Equal(t, 0, got.Procs[0].Rank)
		}
	}
}

// A document of any form gets valid JSON within the limit, or an error.
func FuzzShorten(f *testing.F) {
	f.Add([]byte(`[[[1,2,3],[4,5,6]],{"a":"`+strings.Repeat("x", 900)+`"}]`), false)
	f.Add([]byte(`{"a":{"b":[`+strings.Repeat(`"y",`, 300)+`0]}}`), true)
	f.Add([]byte(strings.Repeat("[", 2000)+strings.Repeat("]", 2000)), false)
	f.Add([]byte(`1 2`), false)
	f.Fuzz(func(t *testing.T, document []byte, newest bool) {
		const limit = 600
		short, note, err := shorten(document, limit, newest)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(short), limit)
		require.True(t, json.Valid([]byte(short)), short)
		require.Less(t, len(note), 4096)
	})
}

func TestShorten_manyCutListsAreCounted_MCP3(t *testing.T) {
	wide := map[string][]string{}
	for i := range 30 {
		wide[fmt.Sprintf("list%02d", i)] = strings.Split(strings.Repeat("word ", 1000), " ")
	}
	text, err := json.Marshal(wide)
	require.NoError(t, err)
	short, note, err := shorten(text, maxResult, false)
	require.NoError(t, err)
	require.LessOrEqual(t, len(short), maxResult)
	require.Contains(t, note, "list07 has the first 128 of 1001 items; 22 more lists. ")
}

// An answer of an actor may be of any form.
func TestShorten_deepNestingTakesNoTime_MCP3(t *testing.T) {
	const depth = 9000
	name := strings.Repeat("x", 50)
	begun := time.Now()
	for _, document := range []string{
		strings.Repeat("[", 3*depth) + strings.Repeat("]", 3*depth),
		strings.Repeat(`{"`+name+`":`, depth) + "1" + strings.Repeat("}", depth),
	} {
		short, note, err := shorten([]byte(document), maxResult, false)
		if err != nil {
			require.ErrorContains(t, err, "exceeded max depth")
			continue
		}
		require.True(t, json.Valid([]byte(short)))
		require.Contains(t, note, "1 deep value left out")
	}
	require.Less(t, time.Since(begun), 5*time.Second)
}

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/internal/cli"
)

func TestUI_servesThePageUntilCtrlC(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	p := start(t, c.env, "ui", "--no-browser")
	url, token, _ := strings.Cut(p.Out.Line(t), "/#token=")
	require.True(t, strings.HasPrefix(url, "http://127.0.0.1:"), url)

	get := func(said string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/overview", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+said)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	require.Equal(t, http.StatusUnauthorized, get("guessed").StatusCode)
	var first struct {
		Hosts struct {
			Shown []struct{ Host, State string }
		}
	}
	for d := json.NewDecoder(get(token).Body); len(first.Hosts.Shown) == 0; {
		require.NoError(t, d.Decode(&first))
	}
	require.Equal(t, "a", first.Hosts.Shown[0].Host)
	require.Equal(t, "alive", first.Hosts.Shown[0].State)
	require.Equal(t, cli.ExitOK, exit(t, p, os.Interrupt))

	r := c.client(t, "ui", "--no-browser", "--addr", "8222")
	require.Equal(t, cli.ExitUsage, r.code)
	require.Contains(t, r.err, `invalid argument "8222" for "--addr" flag: want HOST:PORT or :PORT, such as :8222`)
}

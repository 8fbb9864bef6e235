package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/castnet-io/castnet/config"
)

// oracle is the simplest configuration: the values of each layer, read one after the other.
type oracle map[config.Layer]map[string]time.Duration

func (o oracle) get(name string, otherwise time.Duration) (time.Duration, config.Layer) {
	for _, l := range []config.Layer{"override", "environment", "runtime", "file", "client"} {
		if v, ok := o[l][name]; ok {
			return v, l
		}
	}
	return otherwise, "default"
}

func (o oracle) set(l config.Layer, name string, v time.Duration) {
	if o[l] == nil {
		o[l] = map[string]time.Duration{}
	}
	o[l][name] = v
}

// watched are a few shared keys, and a local one.
var watched = []config.Key[time.Duration]{config.ProcReadyTimeout, config.DeliveryTimeout,
	config.AttachTimeout, config.BusConnectTimeout}

// Any history of sets, reads and pushes leaves the values of the oracle.
func TestLayers_precedenceHoldsForRandomChanges_CFG1_CFG2_CFG5(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c config.Config
		o := oracle{}
		key := rapid.SampledFrom(watched)
		value := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(10, 3_600_000).Draw(t, "ms")) * time.Millisecond
		})
		several := rapid.MapOf(rapid.IntRange(0, len(watched)-1), value)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { agree(t, &c, o) },
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), value.Draw(t, "value")
				require.NoError(t, k.Set(&c, v))
				o.set("runtime", k.String(), v)
			},
			"set by name": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), value.Draw(t, "value")
				require.NoError(t, c.Set(k.String(), v.String()))
				o.set("runtime", k.String(), v)
			},
			"override": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), value.Draw(t, "value")
				require.NoError(t, k.Override(&c, v))
				o.set("override", k.String(), v)
			},
			"from": func(t *rapid.T) {
				env := vars{}
				o["environment"] = map[string]time.Duration{}
				for i, v := range several.Draw(t, "said") {
					env[watched[i].Info().Env] = v.String()
					o.set("environment", watched[i].String(), v)
				}
				require.NoError(t, c.LoadEnv(env.get))
			},
			"file": func(t *rapid.T) {
				file := map[string]config.Setting{}
				o["file"] = map[string]time.Duration{}
				for i, v := range several.Draw(t, "said") {
					file[watched[i].String()] = config.Setting{Text: v.String(), Source: "f:1:1"}
					o.set("file", watched[i].String(), v)
				}
				require.NoError(t, c.LoadFile(file))
			},
			"push": func(t *rapid.T) {
				s := config.Snapshot{Values: map[string]string{}}
				o["client"] = map[string]time.Duration{}
				for i, v := range several.Draw(t, "said") {
					s.Values[watched[i].String()] = v.String()
					if !watched[i].Info().Local {
						o.set("client", watched[i].String(), v)
					}
				}
				ignored, err := c.Push(s)
				require.NoError(t, err)
				require.Equal(t, len(s.Values)-len(o["client"]), ignored)
			},
			"push it back": func(t *rapid.T) { // nothing that counts changes
				_, err := c.Push(c.Snapshot())
				require.NoError(t, err)
				back := map[string]time.Duration{}
				for _, k := range watched {
					if v, l := o.get(k.String(), 0); l != "default" && !k.Info().Local {
						back[k.String()] = v
					}
				}
				o["client"] = back
			},
			"a bad file": func(t *rapid.T) {
				require.Error(t, c.LoadFile(map[string]config.Setting{
					key.Draw(t, "key").String(): {Text: "1s"}, "terminate.concurrency": {Text: "0"},
				}))
			},
		})
	})
}

// agree compares all readings.
func agree(t *rapid.T, c *config.Config, o oracle) {
	pushed := 0
	for _, e := range c.Entries() {
		for _, k := range watched {
			if k.String() != e.Name {
				continue
			}
			otherwise := k.Get(nil)
			v, l := o.get(e.Name, otherwise)
			require.Equal(t, v, k.Get(c), e.Name)
			require.Equal(t, l, e.Layer, e.Name)
			require.Equal(t, v != otherwise, e.Changed, e.Name)
			text, travels := c.Snapshot().Values[e.Name]
			require.Equal(t, l != "default" && !e.Local, travels, e.Name)
			if travels {
				require.Equal(t, e.Value, text)
				pushed++
			}
		}
	}
	require.Len(t, c.Snapshot().Values, pushed)
}

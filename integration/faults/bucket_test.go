package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/castnet-io/castnet/actor"
	"github.com/castnet-io/castnet/bus"
	"github.com/castnet-io/castnet/mesh"
	"github.com/castnet-io/castnet/shape"
	"github.com/castnet-io/castnet/system"
)

// clusterSize is the number of servers, and of copies of the bucket.
const clusterSize = 3

// newClusterRealm is a realm on a cluster of servers. Each server has a copy of the worlds.
func newClusterRealm(t *testing.T, program string) *realm {
	t.Helper()
	r := &realm{T: t, program: program, cluster: map[string]*child{}}
	dir := t.TempDir()
	var ports []int
	var routes, urls []string
	for range clusterSize {
		port := reservePort(t)
		ports, routes = append(ports, port), append(routes, fmt.Sprintf("nats-route://127.0.0.1:%d", port))
	}
	for i, port := range ports {
		name := fmt.Sprint("n", i)
		text := fmt.Sprintf("server_name: %s\njetstream { store_dir: %q, sync_interval: always }\ncluster {\n "+
			"name: faults\n listen: \"127.0.0.1:%d\"\n routes: [%s]\n}\n",
			name, filepath.Join(dir, name), port, strings.Join(routes, ", "))
		file := filepath.Join(dir, name+".conf")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		server, ready := start(t, "server", name, dir, serverConfig{ConfigFile: file})
		r.cluster[name], urls = server, append(urls, ready.URL)
	}
	r.url = strings.Join(urls, ",")
	b, err := bus.Open(t.Context(), bus.Options{URL: r.url, Name: "witness"})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		m, err := b.Control().Request(t.Context(), bus.Msg{Subject: "$JS.API.INFO"})
		return err == nil && !strings.Contains(string(m.Data), `"error"`)
	}, patience, 50*time.Millisecond, "JetStream has no leader")
	require.NoError(t, b.Close(t.Context()))
	r.begins()
	return r
}

// bucketInfo is the servers' state of the stream with the worlds.
type bucketInfo struct {
	Created time.Time
	Config  struct {
		Replicas int `json:"num_replicas"`
	}
	Cluster struct{ Leader string }
	State   struct {
		Subjects int `json:"num_subjects"`
	}
}

const bucketStream = "KV_castnet-castnet-default"

// bucket asks for the stream of the worlds; false: there is none, or no server answers.
func (r *realm) bucket() (info bucketInfo, ok bool) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	m, err := r.client.Bus().Control().Request(ctx, bus.Msg{Subject: "$JS.API.STREAM.INFO." + bucketStream})
	if err != nil || strings.Contains(string(m.Data), `"error"`) {
		return info, false
	}
	return info, json.Unmarshal(m.Data, &info) == nil
}

// F35. The bucket of the worlds has a copy on each of three servers. The test removes the bucket,
// or stops its leader. The worlds are the same, with a host or without. A taken name stays taken,
// and the next controller knows all.
func TestF35_aBucketOfThreeServersThatIsLostCostsWorldsNothing(t *testing.T) {
	program := buildHostd(t, "")
	for _, loss := range []struct {
		name string
		lose func(r *realm, before bucketInfo)
	}{
		{"bucket", func(r *realm, before bucketInfo) {
			m, err := r.client.Bus().Control().Request(r.Context(),
				bus.Msg{Subject: "$JS.API.STREAM.DELETE." + bucketStream})
			require.NoError(r, err)
			require.Contains(r, string(m.Data), `"success":true`)
			require.Eventually(r, func() bool {
				now, ok := r.bucket()
				return ok && now.Created.After(before.Created) && now.Config.Replicas == clusterSize &&
					now.State.Subjects >= before.State.Subjects
			}, patience, 20*time.Millisecond, "the bucket is not made and filled again")
		}},
		{"leader", func(r *realm, before bucketInfo) {
			r.cluster[before.Cluster.Leader].kill()
			require.Eventually(r, func() bool {
				now, ok := r.bucket()
				return ok && now.Cluster.Leader != "" && now.Cluster.Leader != before.Cluster.Leader
			}, patience, 20*time.Millisecond, "the bucket has no other leader")
		}},
	} {
		try(t, fault{"F35 loss of the " + loss.name, 1, seldom}, func(t *testing.T, _ uint64, f *figures) {
			r := newClusterRealm(t, program)
			known := r.declare("later", tickers(t, 1))
			taken := r.detach(t)
			before, ok := r.bucket()
			require.True(t, ok)
			require.Equal(t, clusterSize, before.Config.Replicas)
			lost := time.Now()
			loss.lose(r, before)
			f.time("kept again", time.Since(lost))
			requireKnown := func() {
				require.Equal(t, r.mesh, r.live(loaded).Mesh)
				again := r.declare("later", tickers(t, 1))
				require.Equal(t, known.Mesh, again.Mesh)
				require.Equal(t, system.ChangeNone, again.Change)
				again = r.declare(loaded, tickers(t, loadedProcs))
				require.Equal(t, system.UpsertResponse{World: loaded, Mesh: r.mesh, Status: system.StatusLive,
					Change: system.ChangeNone}, again)
				taken()
			}
			requireKnown()
			f.time("live", time.Since(lost))
			r.leader().kill()
			r.epoch++
			requireKnown()
			f.time("live under the next controller", time.Since(lost))
		})
	}
}

// detach hands a mesh to the system controller, which keeps it and its name. The result requires
// that it still does.
func (r *realm) detach(t *testing.T) (still func()) {
	conn, err := mesh.Connect(t.Context(),
		mesh.Options{Bus: &bus.Options{URL: r.url}, Label: "taker", OnFailure: func(actor.Event) {}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	hosts, err := conn.AwaitHosts(t.Context(), len(r.systems)+len(r.hosts))
	require.NoError(t, err)
	spec := mesh.SpawnSpec{Name: "taken", PerHost: shape.Of("x", 1), Command: mesh.Command{Path: self(t)}}
	procs, err := hosts.SpawnProcs(t.Context(), spec)
	require.NoError(t, err)
	held, err := procs.Detach(t.Context())
	require.NoError(t, err)
	require.True(t, held.Durable)
	return func() {
		require.Eventually(t, func() bool {
			all, err := conn.Detached(t.Context())
			return err == nil && len(all) == 1 && all[0].Mesh == procs.ID()
		}, patience, 20*time.Millisecond, "the detached mesh is forgotten")
		again := spec
		again.TakeName = true
		require.Eventually(t, func() bool {
			_, err := hosts.SpawnProcs(t.Context(), again)
			_, is := errors.AsType[*mesh.NameTakenError](err)
			return is
		}, patience, 20*time.Millisecond, "the name is free")
	}
}

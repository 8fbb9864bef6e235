package bus

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func env(vars map[string]string) func(string) string {
	return func(k string) string { return vars[k] }
}

// localPath is a private directory's local.json.
func localPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "castnet", "local.json")
}

func TestLocal_roundTrips(t *testing.T) {
	path := localPath(t)
	for _, want := range []LocalServer{
		{URL: "nats://127.0.0.1:1", Token: "t", PID: os.Getpid()},
		{URL: "nats://127.0.0.1:2", PID: os.Getpid()},
		{URL: "tls://127.0.0.1:3", PID: os.Getpid(), Fingerprint: "sha256:" + strings.Repeat("0a", 32), CAFile: "/ca",
			CertFile: "/cert", KeyFile: "/key"},
	} {
		require.NoError(t, WriteLocal(path, want))
		got, err := ReadLocal(path)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file stays")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
}

func TestLocal_isIgnoredWhenItsWriterIsDead(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^$")
	require.NoError(t, child.Run())
	path := localPath(t)
	require.NoError(t, WriteLocal(path, LocalServer{URL: DefaultURL, PID: child.Process.Pid}))
	_, err := ReadLocal(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestLocal_isRemovedOnlyByItsWriter(t *testing.T) {
	path := localPath(t)
	require.NoError(t, RemoveLocal(path, 1), "nothing there is nothing to do")
	require.NoError(t, WriteLocal(path, LocalServer{URL: DefaultURL, PID: os.Getpid()}))
	require.NoError(t, RemoveLocal(path, os.Getpid()+1))
	require.FileExists(t, path)
	require.NoError(t, RemoveLocal(path, os.Getpid()))
	require.NoFileExists(t, path)
}

func TestLocal_isRefusedWhenWritableByOthers(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"open directory": func(t *testing.T, path string) {
			require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
		},
		"open file": func(t *testing.T, path string) { require.NoError(t, os.Chmod(path, 0o640)) },
		"linked file": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+"2"))
			require.NoError(t, os.Symlink(path+"2", path))
		},
		"linked directory": func(t *testing.T, path string) {
			dir := filepath.Dir(path)
			require.NoError(t, os.Rename(dir, dir+"2"))
			require.NoError(t, os.Symlink(dir+"2", dir))
		},
		"a directory": func(t *testing.T, path string) {
			require.NoError(t, os.Remove(path))
			require.NoError(t, os.Mkdir(path, 0o700))
		},
		"not JSON": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("nats://x"), 0o600))
		},
		"too long": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, make([]byte, maxLocalSize+10), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := localPath(t)
			require.NoError(t, WriteLocal(path, LocalServer{URL: DefaultURL, PID: os.Getpid()}))
			spoil(t, path)
			_, err := ReadLocal(path)
			require.Error(t, err)
			require.NotErrorIs(t, err, fs.ErrNotExist)
			o := FromEnv(env(map[string]string{"XDG_RUNTIME_DIR": filepath.Dir(filepath.Dir(path))}))
			require.Empty(t, o.URL)
			require.Equal(t, err.Error(), o.hint, "the user learns of it if the default URL fails, too")
		})
	}
}

func TestLocal_writeRefusesInvalidContent(t *testing.T) {
	path := localPath(t)
	require.ErrorContains(t, WriteLocal(path, LocalServer{URL: "127.0.0.1", PID: 1}),
		`url is "127.0.0.1", expected`)
	require.ErrorContains(t, WriteLocal(path, LocalServer{URL: DefaultURL}), "pid is 0")
	require.NoFileExists(t, path)
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o777))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o777))
	require.ErrorContains(t, WriteLocal(path, LocalServer{URL: DefaultURL, PID: 1}),
		"expected no access for others")
}

func TestLocalFile_livesInTheRuntimeDirectoryOfTheUser(t *testing.T) {
	path, err := LocalFile(env(map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}))
	require.NoError(t, err)
	require.Equal(t, "/run/user/7/castnet/local.json", path)
	_, err = LocalFile(env(map[string]string{"XDG_RUNTIME_DIR": "run"}))
	require.ErrorContains(t, err, `"run", expected an absolute path`)
	path, err = LocalFile(env(nil))
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(path))
}

func TestFromEnv_readsTheVariablesOfTheNatsCommand(t *testing.T) {
	vars := map[string]string{
		"NATS_URL": "u", "NATS_CREDS": "cr", "NATS_NKEY": "nk", "NATS_USER": "us", "NATS_PASSWORD": "pw",
		"NATS_TOKEN": "to",
		"NATS_JWT":   "jw", "NATS_SEED": "se", "NATS_CERT": "ce", "NATS_KEY": "ke", "NATS_CA": "ca",
		"NATS_INBOX_PREFIX": "in", "NATS_TLS_FINGERPRINT": "fp",
	}
	require.Equal(t, Options{
		URL: "u", Creds: "cr", NKey: "nk", User: "us", Password: "pw", Token: "to",
		JWT: "jw", Seed: "se", CertFile: "ce", KeyFile: "ke", CAFile: "ca", Fingerprint: "fp", InboxPrefix: "in",
	}, FromEnv(env(vars)))
}

func TestFromEnv_fallsBackToTheLocalServer(t *testing.T) {
	path := localPath(t)
	require.NoError(t, WriteLocal(path, LocalServer{URL: "nats://127.0.0.1:77", Token: "t", PID: os.Getpid()}))
	vars := map[string]string{"XDG_RUNTIME_DIR": filepath.Dir(filepath.Dir(path))}
	require.Equal(t, Options{URL: "nats://127.0.0.1:77", Token: "t"}, FromEnv(env(vars)))
	vars["NATS_USER"] = "me"
	require.Equal(t, Options{URL: "nats://127.0.0.1:77", User: "me"}, FromEnv(env(vars)), "own credentials win")
	vars["NATS_URL"] = "nats://else"
	require.Equal(t, Options{URL: "nats://else", User: "me"}, FromEnv(env(vars)), "a URL wins")
	vars["NATS_URL"] = ""
	fingerprint := "sha256:" + strings.Repeat("0a", 32)
	require.NoError(t, WriteLocal(path, LocalServer{URL: "tls://127.0.0.1:77", PID: os.Getpid(),
		Fingerprint: fingerprint, CAFile: "/ca", CertFile: "/cert", KeyFile: "/key"}))
	require.Equal(t, Options{URL: "tls://127.0.0.1:77", User: "me", Fingerprint: fingerprint, CAFile: "/ca",
		CertFile: "/cert", KeyFile: "/key"}, FromEnv(env(vars)))
	vars["NATS_CA"], vars["NATS_CERT"], vars["NATS_KEY"] = "own.ca", "own.cert", "own.key"
	require.Equal(t, Options{URL: "tls://127.0.0.1:77", User: "me", CAFile: "own.ca", CertFile: "own.cert",
		KeyFile: "own.key"}, FromEnv(env(vars)), "own TLS wins")
}

func FuzzParseLocal(f *testing.F) {
	f.Add([]byte(`{"url":"nats://127.0.0.1:4222","token":"t","pid":1}`))
	f.Add([]byte(`{"url":"://","pid":-1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := parseLocal(data)
		if err != nil {
			require.Zero(t, l)
			return
		}
		require.NoError(t, l.check())
		again, err := json.Marshal(l)
		require.NoError(t, err)
		l2, err := parseLocal(again)
		require.NoError(t, err)
		require.Equal(t, l, l2)
	})
}

package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/castnet-io/castnet/actor"
	keys "github.com/castnet-io/castnet/config"
	"github.com/castnet-io/castnet/internal/logfile"
	"github.com/castnet-io/castnet/subjects"
)

// removeOldLogs removes output of earlier hosts of the directory. Logs of adopted procs stay, and
// those of the newest meshes, as many as the host remembers.
func (r *execRunner) removeOldLogs(adopted []adoptedProc) error {
	files, err := os.ReadDir(r.opts.RunDir)
	if err != nil {
		return fmt.Errorf("cannot list old logs: %w", err)
	}
	byMesh := map[subjects.MeshID]*oldLogs{}
	for _, f := range files {
		name, isLog := strings.CutSuffix(f.Name(), ".log")
		process, _, _ := strings.Cut(name, ".")
		id, err := subjects.ParseProcessID(process)
		info, gone := f.Info()
		if !isLog || err != nil || gone != nil {
			continue
		}
		mesh := id.Proc().Mesh
		if byMesh[mesh] == nil {
			byMesh[mesh] = &oldLogs{}
		}
		byMesh[mesh].add(filepath.Join(r.opts.RunDir, f.Name()), info.ModTime())
	}
	for _, a := range adopted {
		delete(byMesh, a.Mesh.ID)
	}
	old := make([]*oldLogs, 0, len(byMesh))
	for _, l := range byMesh {
		old = append(old, l)
	}
	slices.SortFunc(old, func(a, b *oldLogs) int { return b.written.Compare(a.written) })
	for _, l := range old[min(len(old), keys.HostEndedHistory.Get(r.opts.Config)):] {
		for _, path := range l.paths {
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("cannot remove old logs: %w", err)
			}
		}
	}
	return nil
}

// oldLogs are the output files of a mesh of an earlier life of the host.
type oldLogs struct {
	paths   []string
	written time.Time // the last change of any
}

func (l *oldLogs) add(path string, written time.Time) {
	l.paths = append(l.paths, path)
	if written.After(l.written) {
		l.written = written
	}
}

// logDirInterval is the time between two looks at the directory for output.
const logDirInterval = 5 * time.Second

// watchLogDir logs once that output of procs may be lost, and once that it is kept again.
func (a *hostAgent) watchLogDir(ctx *actor.Context) {
	dir := a.opts.RunDir
	ctx.Go(func(context.Context) func(*actor.Context) {
		err := logfile.CheckDir(dir)
		return func(ctx *actor.Context) {
			now := ""
			log := ctx.Log()
			if err != nil {
				now = err.Error()
			}
			if err != nil && a.logTrouble == "" {
				log.Warn().Err(err).Msg("output of procs may be lost")
			} else if err == nil && a.logTrouble != "" {
				log.Info().Str("dir", dir).Msg("output of procs is kept again")
			}
			a.logTrouble = now
			ctx.After(logDirInterval, a.watchLogDir)
		}
	})
}

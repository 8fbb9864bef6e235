package counting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/castnet-io/castnet/actor"
)

// Type and endpoints of a Counter.
var (
	Type     = actor.NewType[*Counter, actor.None]("wordcount")
	Start    = actor.NewEndpoint[*Counter, Job, Share]("count")
	Progress = actor.NewEndpoint[*Counter, actor.None, Done]("progress", Add)
	Shard    = actor.NewEndpoint[*Counter, Part, Tally]("shard", merge)
	Crash    = actor.NewEndpoint[*Counter, actor.None, actor.None]("crash")
)

// Def returns the definition of the actor type.
func Def() actor.Def {
	return Type.Define(newCounter, Start.Handle((*Counter).start), Progress.Handle((*Counter).progress),
		Shard.Handle((*Counter).shard), Crash.Handle((*Counter).crash))
}

// Job describes a count.
type Job struct {
	Folder string `json:"folder"` // absolute, on the rank's own host
	Suffix string `json:"suffix"` // of the file names
}

// Share is the result of one rank.
type Share struct {
	Files  int           `json:"files"`
	Words  int64         `json:"words"`
	Bytes  int           `json:"bytes"` // size of its vocabulary in a message
	Took   time.Duration `json:"took"`
	Listed int           `json:"listed"` // files of the whole job in this rank's view
	Digest uint64        `json:"digest"` // hash of their names
}

// Done is the progress of a rank, or of a fold of ranks.
type Done struct {
	Files int64 `json:"files"`
	Of    int64 `json:"of"` // 0 during the listing
}

// Add folds the progress of ranks.
var Add = actor.NewReducer("add", func(a, b Done) (Done, error) {
	return Done{Files: a.Files + b.Files, Of: a.Of + b.Of}, nil
})

// Part asks for the counts of one shard.
type Part struct {
	Index  int `json:"index"`
	Shards int `json:"shards"`
	Limit  int `json:"limit"` // maximum size of the reply in bytes
}

// maxShards bounds the memory that a caller can make a rank allocate.
const maxShards = 1 << 20

// Counter counts the words of its share of a folder.
type Counter struct {
	counting bool
	counts   map[string]int64
	shards   []map[string]int64 // counts, as cut for the last Part

	files, of atomic.Int64 // written by the counting task, outside the turn
}

func newCounter(*actor.Context, actor.None) (*Counter, error) { return &Counter{}, nil }

// start starts the count and replies at its end.
func (c *Counter) start(ctx *actor.Context, j Job) (Share, error) {
	if c.counting {
		return Share{}, errors.New("this rank is counting already")
	}
	if !filepath.IsAbs(j.Folder) {
		return Share{}, fmt.Errorf("folder %q: want an absolute path", j.Folder)
	}
	c.counting = true
	c.counts = nil
	c.shards = nil
	c.files.Store(0)
	c.of.Store(0)
	answer := actor.Defer[Share](ctx)
	point := ctx.Point()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		began := time.Now()
		counts, s, err := c.count(work, j, point.Rank(), point.Extent().NumRanks())
		s.Took, s.Bytes = time.Since(began), size(counts)
		return func(*actor.Context) {
			c.counting = false
			c.counts = counts
			answer.Reply(s, err)
		}
	})
	return Share{}, nil
}

// count reads every file of the rank's share.
func (c *Counter) count(ctx context.Context, j Job, rank, ranks int) (map[string]int64, Share, error) {
	if info, err := os.Stat(j.Folder); err != nil {
		return nil, Share{}, err
	} else if !info.IsDir() {
		return nil, Share{}, fmt.Errorf("%s is not a folder", j.Folder)
	}
	folder := os.DirFS(j.Folder)
	all, err := list(ctx, folder, j.Suffix)
	if err != nil {
		return nil, Share{}, err
	}
	mine := share(all, rank, ranks)
	s := Share{Files: len(mine), Listed: len(all), Digest: digest(all)}
	c.of.Store(int64(len(mine)))
	seen := map[string]*int64{} // pointers, so that a known word needs no allocation
	for _, file := range mine {
		if err := ctx.Err(); err != nil {
			return nil, s, err
		}
		n, err := countFile(folder, file, seen)
		if err != nil {
			return nil, s, err
		}
		s.Words += n
		c.files.Add(1)
	}
	counts := make(map[string]int64, len(seen))
	for word, n := range seen {
		counts[word] = *n
	}
	return counts, s, nil
}

// countFile adds the words of a file to seen.
func countFile(folder fs.FS, name string, seen map[string]*int64) (words int64, err error) {
	f, err := folder.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	err = Words(f, func(word []byte) {
		words++
		if n := seen[string(word)]; n != nil {
			*n++
			return
		}
		n := int64(1)
		seen[string(word)] = &n
	})
	return words, err
}

func (c *Counter) progress(*actor.Context, actor.None) (Done, error) {
	return Done{Files: c.files.Load(), Of: c.of.Load()}, nil
}

// shard replies with the rank's counts of one shard (WC-3).
func (c *Counter) shard(_ *actor.Context, p Part) (Tally, error) {
	if c.counts == nil {
		return Tally{}, errors.New("nothing is counted yet")
	}
	if p.Shards < 1 || p.Shards > maxShards || p.Index < 0 || p.Index >= p.Shards {
		return Tally{}, fmt.Errorf("shard %d of %d: want one of at most %d", p.Index, p.Shards, maxShards)
	}
	if len(c.shards) != p.Shards {
		c.shards = cut(c.counts, p.Shards)
	}
	return newTally(c.shards[p.Index], p.Limit), nil
}

// crash ends the rank's process like kill -9, for clients on other machines.
func (c *Counter) crash(*actor.Context, actor.None) (actor.None, error) {
	return actor.None{}, syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

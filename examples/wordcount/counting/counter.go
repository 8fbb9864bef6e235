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

// What a Counter can be asked.
var (
	Type     = actor.NewType[*Counter, actor.None]("wordcount")
	Start    = actor.NewEndpoint[*Counter, Job, Share]("count")
	Progress = actor.NewEndpoint[*Counter, actor.None, Done]("progress", Add)
	Shard    = actor.NewEndpoint[*Counter, Part, Tally]("shard", merge)
	Crash    = actor.NewEndpoint[*Counter, actor.None, actor.None]("crash")
)

// Def is how it is done.
func Def() actor.Def {
	return Type.Made(newCounter, Start.By((*Counter).start), Progress.By((*Counter).progress),
		Shard.By((*Counter).shard), Crash.By((*Counter).crash))
}

// Job is what to count.
type Job struct {
	Folder string `json:"folder"` // absolute, on the rank's own host
	Suffix string `json:"suffix"` // of the files' names
}

// Share is one rank's part of the job.
type Share struct {
	Files  int           `json:"files"`
	Words  int64         `json:"words"`
	Bytes  int           `json:"bytes"` // that its vocabulary takes in a message
	Took   time.Duration `json:"took"`
	Listed int           `json:"listed"` // files in the whole job, as this rank sees them
	Digest uint64        `json:"digest"` // of their names
}

// Done is how far a rank, or a fold of ranks, has come.
type Done struct {
	Files int64 `json:"files"`
	Of    int64 `json:"of"` // 0 while a rank still lists
}

// Add folds what ranks have done.
var Add = actor.NewReducer("add", func(a, b Done) (Done, error) {
	return Done{Files: a.Files + b.Files, Of: a.Of + b.Of}, nil
})

// Part asks for the counts of the words of one shard.
type Part struct {
	Index  int `json:"index"`
	Shards int `json:"shards"`
	Limit  int `json:"limit"` // bytes the answer may have
}

// maxShards bounds what a caller can make a rank allocate.
const maxShards = 1 << 20

// Counter counts the words of its share of a folder.
type Counter struct {
	counting bool
	counts   map[string]int64
	shards   []map[string]int64 // counts, as cut for the last Part

	files, of atomic.Int64 // written by the counting, which runs off the turn
}

func newCounter(*actor.Context, actor.None) (*Counter, error) { return &Counter{}, nil }

// start counts; the answer comes when that is done.
func (c *Counter) start(ctx *actor.Context, j Job) (Share, error) {
	if c.counting {
		return Share{}, errors.New("this rank is counting already")
	}
	if !filepath.IsAbs(j.Folder) {
		return Share{}, fmt.Errorf("folder %q: want an absolute path", j.Folder)
	}
	c.counting, c.counts, c.shards = true, nil, nil
	c.files.Store(0)
	c.of.Store(0)
	answer, point := actor.Defer[Share](ctx), ctx.Point()
	ctx.Go(func(work context.Context) func(*actor.Context) {
		began := time.Now()
		counts, s, err := c.count(work, j, point.Rank(), point.Extent().NumRanks())
		s.Took, s.Bytes = time.Since(began), size(counts)
		return func(*actor.Context) {
			c.counting, c.counts = false, counts
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
	seen := map[string]*int64{} // pointers: adding to a known word allocates nothing
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

// countFile adds the words of a file to what was seen.
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

// shard answers with the rank's counts of one shard (WC-3).
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

// crash ends the rank's process as kill -9 would. A client on another machine has no other way to
// show what its owner then sees.
func (c *Counter) crash(*actor.Context, actor.None) (actor.None, error) {
	return actor.None{}, syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

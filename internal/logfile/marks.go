package logfile

import (
	"sort"
	"sync"
	"time"
)

// Marks holds when parts of a file were read, for the times of its lines. Such a time is late by
// the poll interval of Follow, or by a 40th of its age. The zero Marks knows no times. Its methods
// may be called concurrently.
type Marks struct {
	mu    sync.Mutex
	begun bool
	from  int64 // before it, times are unknown
	all   []mark
}

// mark is a time, and the end of the part that was read until then.
type mark struct {
	end int64
	at  time.Time
}

const (
	maxMarks = 1024
	// agePerGap is the least age of a mark over the gap that it may leave.
	agePerGap = 40
)

// Begin sets the offset of the first read.
func (m *Marks) Begin(from int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun = true
	m.from = from
	m.all = nil
}

// Add records that the file was read up to an offset.
func (m *Marks) Add(end int64, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.all); n > 0 && end < m.all[n-1].end { // the file was restarted
		m.from = 0
		m.all = nil
	}
	if len(m.all) == maxMarks {
		m.thin(at)
	}
	m.all = append(m.all, mark{end, at})
}

// thin drops marks between others that are close to each other for their age, and then the oldest.
func (m *Marks) thin(now time.Time) {
	kept := m.all[:1]
	last := len(m.all) - 1
	for i := 1; i < last; i++ {
		next := m.all[i+1].at
		if next.Sub(kept[len(kept)-1].at) >= now.Sub(next)/agePerGap {
			kept = append(kept, m.all[i])
		}
	}
	kept = append(kept, m.all[last])
	m.all = kept[:copy(kept, kept[max(0, len(kept)-maxMarks*3/4):])]
}

// at returns the time of the line at an offset; zero: unknown. A line that was not read yet is of
// now.
func (m *Marks) at(offset int64, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.begun || offset < m.from {
		return time.Time{}
	}
	i := sort.Search(len(m.all), func(i int) bool { return m.all[i].end > offset })
	if i == len(m.all) {
		return now
	}
	return m.all[i].at
}

// since returns the offset of the first line of a time or later.
func (m *Marks) since(t time.Time) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.from
	for _, k := range m.all {
		if !k.at.Before(t) {
			break
		}
		end = k.end
	}
	return end
}

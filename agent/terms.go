package agent

import (
	"slices"
	"time"
)

// Keep sets when a resource expires; the zero time means never.
func (t *Table) Keep(id string, until time.Time) {
	if r, ok := t.resources[id]; ok {
		r.expires = until
	}
}

// Grant gives a resource a lease of so long.
func (t *Table) Grant(id string, now time.Time, term time.Duration) {
	if r, ok := t.resources[id]; ok {
		r.expires, r.term = now.Add(term), term
	}
}

// PutOff lets a lease that has run out go on for half its term, once; false: it did already.
func (t *Table) PutOff(id string, now time.Time) bool {
	r, ok := t.resources[id]
	if !ok || r.term == 0 {
		return false
	}
	r.expires, r.term = now.Add(r.term/2), 0
	return true
}

// Expires is when the lease of a resource ends; zero: never.
func (t *Table) Expires(id string) time.Time {
	if r, ok := t.resources[id]; ok {
		return r.expires
	}
	return time.Time{}
}

// Expired lists the resources whose time has passed and that still have a rank alive.
func (t *Table) Expired(now time.Time) []string {
	var ids []string
	for id, r := range t.resources {
		if !r.expires.IsZero() && !now.Before(r.expires) && !r.over() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Expiry is when the next lease of a resource with live ranks ends; false: none does.
func (t *Table) Expiry() (next time.Time, ok bool) {
	for _, r := range t.resources {
		if !r.expires.IsZero() && !r.over() && (!ok || r.expires.Before(next)) {
			next, ok = r.expires, true
		}
	}
	return next, ok
}

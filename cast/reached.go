package cast

import "sort"

// reached tells the links whose answers have come: no acknowledgement of theirs is waited for.
func (a *asking) reached() {
	heard := a.heard
	a.heard = nil
	if len(heard) == 0 {
		return
	}
	for i, n := range a.numbers {
		k := a.route.packets[i]
		var members []int
		for _, s := range heard {
			members = k.within(a.tree, s, members)
		}
		if n != 0 && len(members) > 0 {
			a.p.Reached(k.group, n, members)
		}
	}
}

// answered tells the links that this process has answered a cast, and need not acknowledge it.
func (fs *folds) answered(j job, c contribution) {
	if j.sent.n != 0 && c.speaksFor(j.lo, j.below) {
		fs.p.Answered(j.sent.from.Proc.Process(), j.sent.n)
	}
}

// within adds the members of a packet in whose processes some of the ranks are.
func (k packet) within(t tree, s span, to []int) []int {
	i := sort.Search(len(k.members), func(i int) bool { return k.members[i].view > s.First })
	if i > 0 && t.processEnd(k.members[i-1].view) > s.First {
		i--
	}
	for ; i < len(k.members) && k.members[i].view < s.end(); i++ {
		to = append(to, i)
	}
	return to
}

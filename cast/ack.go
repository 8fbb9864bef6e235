package cast

import (
	"sort"

	"github.com/castnet-io/castnet/shape"
)

// ackAnswered reports the arrived replies to the links; they then await no acknowledgement.
func (a *operation) ackAnswered() {
	heard := a.received
	a.received = nil
	if len(heard) == 0 {
		return
	}
	for i, n := range a.packetNumbers {
		k := a.route.packets[i]
		var members []int
		for _, s := range heard {
			members = k.membersIn(a.tree, s, members)
		}
		if n != 0 && len(members) > 0 {
			k.group.ReplyReceived(n, members)
		}
	}
}

// ackAnswered tells the links that this process answered a cast, and need not acknowledge it.
func (fs *aggregations) ackAnswered(j job, c contribution) {
	if j.origin.number != 0 && c.coversAny(j.lo, j.ownEnd) {
		fs.p.Casts().ReplySent(j.origin.from.Proc.Process(), j.origin.number)
	}
}

// membersIn adds the members of a packet whose processes have some of the ranks.
func (k packet) membersIn(t tree, s shape.RankRun, to []int) []int {
	i := sort.Search(len(k.members), func(i int) bool { return k.members[i].view > s.First })
	if i > 0 && t.processEnd(k.members[i-1].view) > s.First {
		i--
	}
	for ; i < len(k.members) && k.members[i].view < s.End(); i++ {
		to = append(to, i)
	}
	return to
}

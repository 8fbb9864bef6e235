package screen

import (
	"maps"
	"slices"
	"unicode/utf8"
)

// press handles a key by its name, such as "up" or "q".
func (s state) press(key string) (state, []any) {
	switch {
	case key == "ctrl+c":
		return s, []any{quit{}}
	case key == "ctrl+z":
		return s, []any{suspend{}}
	case key == "ctrl+l":
		return s, []any{redraw{}}
	case s.typing:
		return s.edit(key), nil
	case s.help:
		s.help = false
		return s, nil
	}
	switch key {
	case "q":
		return s, []any{quit{}}
	case "?", "h":
		s.help = true
	case "esc":
		return s.leave()
	case "e":
		return s.togglePane(eventPane)
	case "l":
		return s.togglePane(logPane)
	case "tab":
		s.focused = s.pane != noPane && !s.focused
	case "m":
		s.mouse = !s.mouse
	case "up", "k":
		return s.move(-1), nil
	case "down", "j":
		return s.move(1), nil
	case "pgup", "ctrl+b":
		return s.move(-s.page()), nil
	case "pgdown", "ctrl+f":
		return s.move(s.page()), nil
	case "home", "g":
		return s.move(-s.reach()), nil
	case "end", "G":
		return s.move(s.reach()), nil
	default:
		if s.detail == nil {
			return s.pressInTree(key), nil
		}
	}
	return s, nil
}

// pressInTree handles the keys that only the tree has.
func (s state) pressInTree(key string) state {
	switch key {
	case "right":
		return s.setOpen(true)
	case "left":
		return s.fold()
	case "space":
		if r, is := s.selected(); is {
			return s.setOpen(!r.isOpen)
		}
	case "enter":
		return s.enter()
	case "+":
		return s.openGroups(true)
	case "-":
		return s.openGroups(false)
	case "s":
		s.sort = (s.sort + 1) % len(sortKeys())
		return s.arrange()
	case "S":
		s.sort = (s.sort + len(sortKeys()) - 1) % len(sortKeys())
		return s.arrange()
	case "f":
		s.filter = (s.filter + 1) % filters
		s.open = map[string]bool{}
		return s.arrange()
	case "t":
		s.group = byMesh - s.group
		s.cursor = ""
		return s.arrange()
	case "/":
		s.typing, s.search = true, ""
	case "n":
		return s.find(1, false)
	case "N":
		return s.find(-1, false)
	}
	return s
}

// edit handles a key while the search is typed.
func (s state) edit(key string) state {
	switch key {
	case "enter":
		s.typing = false
	case "esc":
		s.typing, s.search = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(s.search)
		s.search = s.search[:len(s.search)-size]
		return s.find(1, true)
	case "space":
		s.search += " "
	default:
		if utf8.RuneCountInString(key) == 1 && len(s.search) < maxSearch {
			s.search += key
			return s.find(1, true)
		}
	}
	return s
}

// maxSearch bounds the bytes of a search.
const maxSearch = 100

// find moves to the next row that matches the search, in a direction; stay: the selected row may
// match. It opens the group of the row.
func (s state) find(direction int, stay bool) state {
	if s.search == "" {
		return s
	}
	all := s.tree(true)
	from := slices.IndexFunc(all, func(r row) bool { return r.key == s.cursor })
	for step := range len(all) {
		n := step
		if !stay {
			n++
		}
		i := (from + direction*n + 2*len(all)) % len(all)
		if !s.matches(all[i]) {
			continue
		}
		s.cursor = all[i].key
		if parent := all[i].parent; parent != "" && all[i].depth == 1 {
			s.open = maps.Clone(s.open)
			s.open[parent] = true
			return s.arrange()
		}
		return s
	}
	return s
}

// leave goes back one step: from the pane, from a rank, from a search, from a filter.
func (s state) leave() (state, []any) {
	switch {
	case s.focused:
		s.focused, s.back = false, 0
	case s.detail != nil:
		s.detail = nil
	case s.search != "":
		s.search = ""
	case s.filter != allRanks:
		s.filter = allRanks
		s = s.arrange()
	case s.pane == logPane:
		return s.togglePane(logPane)
	}
	return s, nil
}

// togglePane shows or hides a pane. The logs are those of the selected rank or mesh.
func (s state) togglePane(p pane) (state, []any) {
	s.focused, s.back = false, 0
	var target logTarget
	if p == logPane {
		target = s.logTarget()
	}
	hides := s.pane == p && (p != logPane || target == s.log.of || target == logTarget{})
	ended := s.log.of != logTarget{}
	s.pane = p
	if hides {
		s.pane = noPane
		target = logTarget{}
	}
	s.log = logView{of: target}
	if target == (logTarget{}) && !ended {
		return s, nil
	}
	return s, []any{followLog(target)}
}

// logTarget returns what the selected row has a log of.
func (s state) logTarget() logTarget {
	if s.detail != nil {
		for _, r := range s.tree(true) {
			if r.depth == 1 && r.proc.id() == s.detail.id {
				return logTarget{r.mesh, r.proc.Point, r.proc.Rank}
			}
		}
	}
	r, is := s.selected()
	if !is || r.mesh == "" {
		return logTarget{}
	}
	if r.proc == nil {
		return logTarget{mesh: r.mesh, rank: -1}
	}
	return logTarget{r.mesh, r.proc.Point, r.proc.Rank}
}

// enter opens a rank, or a group.
func (s state) enter() state {
	r, is := s.selected()
	if !is {
		return s
	}
	if r.proc == nil {
		return s.setOpen(!r.isOpen)
	}
	s.detail = &detailView{id: r.proc.id()}
	return s
}

func (s state) selected() (row, bool) {
	i := slices.IndexFunc(s.rows, func(r row) bool { return r.key == s.cursor })
	if i < 0 {
		return row{}, false
	}
	return s.rows[i], true
}

// setOpen opens or closes the selected row.
func (s state) setOpen(open bool) state {
	r, is := s.selected()
	if !is || r.leaf {
		return s
	}
	s.open = maps.Clone(s.open)
	s.open[r.key] = open
	return s.arrange()
}

// fold closes the selected row, or selects its parent.
func (s state) fold() state {
	r, is := s.selected()
	if is && r.parent != "" && !(r.isOpen && !r.leaf) {
		s.cursor = r.parent
		return s
	}
	return s.setOpen(false)
}

// openGroups opens or closes all groups.
func (s state) openGroups(open bool) state {
	s.open = map[string]bool{}
	s.autoOpen = open
	if !open {
		for r, is := s.selected(); is && r.parent != ""; r, is = s.selected() {
			s.cursor = r.parent
		}
		for _, g := range s.groups() {
			s.open[g.key] = false // also those that a filter opens
		}
	}
	return s.arrange()
}

// move moves the cursor, the open rank or the focused pane by some lines.
func (s state) move(by int) state {
	switch {
	case s.focused:
		s.back = max(0, min(s.back-by, s.paneLength()-1))
	case s.detail != nil:
		d := *s.detail
		d.scroll = max(0, min(d.scroll+by, len(s.detailLines())-s.bodyHeight()))
		s.detail = &d
	case len(s.rows) > 0:
		at := slices.IndexFunc(s.rows, func(r row) bool { return r.key == s.cursor })
		s.cursor = s.rows[max(0, min(at+by, len(s.rows)-1))].key
	}
	return s
}

// reach is a distance past all lines.
func (s state) reach() int { return len(s.rows) + maxEvents + maxLines }

func (s state) page() int {
	if s.focused {
		return max(1, s.paneHeight()-1)
	}
	return max(1, s.bodyHeight()-1)
}

// click selects the row at a line of the screen, and opens or closes it if it is selected already.
func (s state) click(line int) state {
	at := line - s.bodyTop() + s.top
	inTree := s.detail == nil && !s.help && s.bodyTop() <= line && line < s.bodyTop()+s.bodyHeight()
	if !inTree || at >= len(s.rows) {
		return s
	}
	if s.cursor == s.rows[at].key {
		return s.setOpen(!s.rows[at].isOpen)
	}
	s.cursor = s.rows[at].key
	return s
}

// scrollToCursor keeps the selected row on the screen. If the row is gone, the one at its place is
// selected.
func (s state) scrollToCursor() state {
	at := slices.IndexFunc(s.rows, func(r row) bool { return r.key == s.cursor })
	if at < 0 && len(s.rows) > 0 {
		at = max(0, min(s.at, len(s.rows)-1))
		s.cursor = s.rows[at].key
	}
	s.at = max(0, at)
	height := s.bodyHeight()
	s.top = max(0, min(s.top, len(s.rows)-height))
	s.top = min(s.top, s.at)
	s.top = max(s.top, s.at-height+1)
	return s
}

// visibleRows returns the rows on the screen.
func (s state) visibleRows() []row {
	return s.rows[min(s.top, len(s.rows)):min(s.top+s.bodyHeight(), len(s.rows))]
}

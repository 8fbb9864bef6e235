// One mesh: its health, its heat map, the selection, the rank, and what happens.

import { Events } from './activity.js';
import { Stream } from './api.js';
import { Casts } from './casts.js';
import { markOf } from './colour.js';
import { copyable, count, duration, h, plural, redo, say } from './dom.js';
import { HeatMap } from './heatmap.js';
import { RankPanel } from './panel.js';
import { parseRegion, pointOf, pointRegion, pointText, ranksOf, regionText } from './region.js';
import { Selection } from './selection.js';

export class MeshView {
  /** @param {string} id @param {number | undefined} rank the rank whose panel is open */
  constructor(app, id, rank) {
    Object.assign(this, { app, id, rank });
    const at = `#/mesh/${encodeURIComponent(id)}`;
    app.place(id, id);
    this.head = h('header.head', {}, h('h1', {}, id));
    [this.trouble, this.tools] = [h('div', { hidden: true }), h('div.tools')];
    this.note = h('p.notice', {}, 'Asking the ranks…');
    const onSelect = (region) => { // takes the place of the rank
      this.heat.setRegion(region);
      this.selection.show(region);
      this.inspect();
      if (region && this.rank !== undefined) location.hash = at;
    };
    const onOpen = (r, byKey) => {
      this.byKey = byKey;
      location.hash = `${at}/rank/${r}`;
    };
    this.heat = new HeatMap({ onOpen, onSelect });
    this.partNote = h('p.muted', { hidden: true });
    this.panel = new RankPanel(id, {
      onClose: () => { location.hash = at; }, onSelect: (r) => onSelect(pointRegion(pointOf(this.heat.grid.sizes, r))),
    });
    this.selection = new Selection(app, id, { onSelect, sampleRank: (region) => this.sampleRank(region) });
    this.casts = new Casts((text) => onSelect(parseRegion(this.heat.grid, text)));
    this.events = new Events(true);
    const map = h('section', { 'aria-label': 'Ranks' }, this.tools, this.heat.el, this.partNote);
    this.body = h('div.split', { hidden: true }, map, h('div.side', {}, this.panel.el, this.selection.el), this.casts.el, this.events.el);
    this.el = h('div.stack', {}, this.head, this.note, this.trouble, this.body);
    this.stream = new Stream(this.path(''), (line) => this.show(line), (s) => this.state(s));
    this.parts = [this.stream, this.heat, this.panel, this.selection];
  }

  /** The path of the main stream, whose server asks the ranks of a region first. */
  path(region) {
    const path = `/api/meshes/${encodeURIComponent(this.id)}`;
    return region ? `${path}?region=${encodeURIComponent(region)}` : path;
  }

  state(s) {
    this.app.connection(s);
    if (s.kind === 'ended') say(this.note, `The mesh has ended: ${s.cause}. This is its last picture.`);
    if (s.kind !== 'gone') return;
    this.close();
    this.el.replaceChildren(this.head, h('section.empty', {}, h('p', {}, `Cannot show mesh ${this.id}: ${s.cause}.`),
      h('p', {}, 'It may have ended. ', h('a', { href: '#/' }, 'The overview'), ' has all live meshes.')));
  }

  show(line) {
    if (this.events.take(line)) return;
    say(this.note, line.missing ? `Not complete: ${line.missing}` : '');
    if (line.mesh) this.setHeader(line);
    if (!line.ranks) return;
    this.heat.setData(Uint8Array.from(atob(line.ranks), (c) => c.charCodeAt(0)));
    this.casts.show(line);
    say(this.partNote, line.part ? partText(line.part) : '');
    if (Boolean(this.part) !== Boolean(line.part)) setTimeout(() => this.inspect());
    this.part = line.part;
  }

  /** Has the selected or opened ranks asked first, if the server asks some only. */
  inspect() {
    clearTimeout(this.inspecting);
    this.inspecting = setTimeout(() => {
      const { heat: { grid }, selection: { region }, rank, part } = this;
      const at = region ?? (rank < this.heat.ranks ? pointRegion(pointOf(grid.sizes, rank)) : null);
      this.stream.move(this.path(part && at ? regionText(grid, at) : ''));
    }, 300); // a drag goes over many regions
  }

  setHeader(header) {
    const m = header.mesh;
    this.header = header;
    this.body.hidden = false;
    this.app.place(m.label, m.label);
    redo(this.head, m, () => headOf(m));
    this.trouble.hidden = !(m.causes?.length || m.next?.length || m.suggestions?.length);
    redo(this.trouble, [m.answer, m.causes, m.next, m.suggestions], () => troubleOf(m));
    const changed = this.heat.setHeader(header);
    this.tellSelection();
    if (!changed) return;
    this.selection.show(null);
    this.makeTools();
    this.route(this.rank);
  }

  tellSelection() {
    const { heat: { grid }, header } = this;
    if (header) this.selection.setMesh({ name: header.mesh.name, world: header.mesh.kind === 'world', grid });
  }

  makeTools() {
    const { heat, header: { columns } } = this;
    const pick = (label, names, at, then) => {
      const select = h('select', { onchange: () => then(Number(select.value)) },
        ...names.map(([value, text]) => h('option', { value, selected: value === at }, text)));
      return h('label', {}, label, select);
    };
    const colours = columns.map((c, i) => [i, c.unit ? `${c.name}, ${c.unit}` : c.name]);
    const dims = [[-1, 'none'], ...heat.grid.labels.map((label, d) => [d, label])];
    const axis = (label, mine, other) => pick(label, dims, heat.axes[mine], (d) => {
      const taken = d >= 0 && heat.axes[other] === d; // then they change places
      heat.axes = { ...heat.axes, [mine]: d, ...(taken && { [other]: heat.axes[mine] }) };
      heat.arrange();
      this.makeTools();
    });
    const touch = h('button.touch', { type: 'button', ariaPressed: String(heat.dragSelects) }, 'Drag to select');
    touch.onclick = () => { touch.ariaPressed = String(heat.dragSelects = heat.canvas.classList.toggle('selects')); };
    this.tools.replaceChildren(pick('Colour', colours, heat.column, (c) => heat.setColumn(c)),
      ...(dims.length > 2 ? [axis('Across', 'x', 'y'), axis('Down', 'y', 'x')] : []), touch);
  }

  /** A rank of a region that runs, if one of its first thousand does; or else its first. */
  sampleRank(region) {
    const some = ranksOf(this.heat.grid.sizes, region).take(1000).toArray();
    return some.find((rank) => this.heat.statusOf(rank) === 'running') ?? some[0];
  }

  /** Opens the panel of a rank, or closes it. */
  route(rank) {
    this.rank = rank;
    if (!this.header) return;
    this.inspect();
    const isThere = rank < this.heat.ranks;
    document.body.classList.toggle('sheet-open', isThere);
    this.heat.setOpened(isThere ? rank : undefined);
    if (isThere) {
      this.panel.open(rank, pointText(this.heat.grid, pointOf(this.heat.grid.sizes, rank)));
      if (this.byKey) this.panel.title.focus();
    } else {
      if (this.panel.el.contains(document.activeElement)) this.heat.canvas.focus();
      this.panel.close();
    }
    this.byKey = false;
  }

  close() {
    document.body.classList.remove('sheet-open');
    clearTimeout(this.inspecting);
    for (const part of this.parts) part.close();
  }
}

/** Which ranks were asked for their messages. @param {{asked: number, live: number, oldest: number}} part */
function partText({ asked, live, oldest }) {
  const old = oldest > 0 ? ` The oldest values are ${duration(oldest / 1e6)} old.` : '';
  return `There are many ranks: ${count(asked)} of ${count(live)} are asked for their messages at a time, `
    + `selected ones first, the others in turn. Statuses, restarts, CPU and memory are of all.${old}`;
}

function headOf(m) {
  const owner = m.kind === 'world' ? 'the system controller' : m.owner?.id?.split('/')[0];
  const [labels, sizes] = [m.labels ?? [], m.sizes ?? []];
  const facts = [
    m.kind, labels.map((l, d) => `${l}=${sizes[d]}`).join(','), plural(sizes.reduce((n, s) => n * s, 1), 'rank'),
    plural(m.hosts ?? 0, 'host') + (m.hosts_down > 0 ? `, ${count(m.hosts_down)} not alive` : ''),
    owner ? `owned by ${owner}` : 'no owner',
  ];
  return [h('h1', {}, m.label), h('span.state', {}, markOf(m.phase), m.phase),
    h('p.sum', { title: m.id }, facts.filter(Boolean).join(' · '))];
}

/** What is wrong, what happens next and what to do; a command at the end of advice can be copied. */
function troubleOf(m) {
  const item = (line) => {
    const at = line.indexOf('castnet ');
    return at < 0 ? h('li', {}, line) : h('li', {}, line.slice(0, at), ...copyable(line.slice(at)));
  };
  const text = (line) => h('li', {}, line); // of procs: never a command
  const part = (title, lines, make = text) =>
    (lines?.length ? h('div', {}, h('h2', {}, title), h('ul', {}, ...lines.map(make))) : null);
  return h('section.trouble', { 'aria-label': 'Health' }, part(m.answer, m.causes?.length ? m.causes : ['']),
    part('What happens next', m.next), part('What to do', m.suggestions, item));
}

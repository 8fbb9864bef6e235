// The overview: meshes, worlds and hosts.

import { Events } from './activity.js';
import { Stream } from './api.js';
import { markOf } from './colour.js';
import { bytes, copyable, count, duration, h, meter, plural, redo, say, since, Table } from './dom.js';

const meshPath = (id) => `#/mesh/${encodeURIComponent(id)}`;
const state = (head, of) => ({ head, text: of, make: (row) => h('span.state', {}, markOf(of(row)), of(row)) });
const number = (head, text) => ({ head, text, num: true });
const names = (some, all) => (all <= 3 ? some.join(', ') : `${some.slice(0, 2).join(', ')} and ${count(all - 2)} more`);
const share = (m) => `${count(m.running)} of ${count(m.ranks)}`;

const meshColumns = [
  { head: 'Mesh', text: (m) => m.label, make: (m) => h('a', { href: meshPath(m.mesh), title: m.mesh }, m.label) },
  state('Phase', (m) => m.phase),
  { ...number('Running', share), make: (m) => h('span.share', {}, share(m), meter(m.ranks, { running: m.running })) },
  { head: 'Extent', text: (m) => m.extent || 'one rank' },
  { head: 'Kind', text: (m) => m.kind },
  { head: 'Owner', text: (m) => (m.owner?.kind === 'system' ? 'system controller' : m.owner?.kind ?? 'none') },
  number('Age', (m) => since(m.since)),
  { head: 'Hosts', text: (m) => names(m.hosts ?? [], m.host_count) },
];

/** A column of what only a host that answers can say. */
const ofHost = (head, text) => number(head, (x) => (['dead', 'unknown'].includes(x.state) ? '–' : text(x)));

const hostColumns = [
  { head: 'Host', text: (x) => x.host },
  state('State', (x) => x.state),
  ofHost('Procs', (x) => count(x.procs)),
  ofHost('CPU', (x) => `${Math.round(x.cpu)} %`),
  ofHost('Memory', (x) => bytes(x.memory)),
  ofHost('Messages/s', (x) => count(Math.round(x.rate))),
  ofHost('Queued', (x) => count(x.queued)),
  number('Last heard', (x) => (x.silence > 1.5e9 ? `${duration(x.silence / 1e6)} ago` : 'now')),
];

const worldColumns = [
  { head: 'World', text: (w) => w.name },
  state('Phase', (w) => w.phase),
  { head: 'Cause', text: (w) => w.cause || '–' },
];

/** Trouble first, then by name. */
const sorted = (rows, isWell, name) =>
  rows.toSorted((a, b) => isWell(a) - isWell(b) || name(a).localeCompare(name(b), 'en', { numeric: true }));

const NO_ROWS = { shown: [], count: 0, trouble: 0 };

/** Which rows of a noun are left out: those in trouble come first. */
function moreOf({ shown, count: all, trouble }, noun) {
  const more = all - shown.length;
  const bad = Math.max(0, trouble - shown.length);
  if (more === 0) return '';
  return `and ${plural(more, `more ${noun}`)}, ${bad > 0 ? `${count(bad)} of them in trouble` : 'all well'}`;
}

export class Overview {
  constructor(app) {
    app.place('Overview');
    this.meshes = new Table('Meshes', meshColumns);
    this.worlds = new Table('Worlds', worldColumns);
    this.hosts = new Table('Hosts', hostColumns);
    this.sum = h('p.sum');
    this.note = h('p.notice', {}, 'Asking the hosts…');
    this.none = h('section.empty', { hidden: true });
    this.events = new Events(false);
    this.el = h('div.stack', {}, h('header.head', {}, h('h1', {}, 'Overview'), this.sum), this.note,
      this.none, this.meshes.el, this.worlds.el, this.hosts.el,
      this.events.el);
    this.stream = new Stream('/api/overview', (line) => this.show(line), (s) => app.connection(s));
  }

  show(line) {
    if (this.events.take(line)) return;
    say(this.note, line.missing ? `Not complete: ${line.missing}` : '');
    if (line.error && !line.hosts?.count) return; // no data came with the error
    const { hosts = NO_ROWS, meshes = NO_ROWS, worlds = NO_ROWS } = line;
    const isWell = (m) => m.phase === 'running' && m.running === m.ranks;
    this.meshes.update(sorted(meshes.shown, isWell, (m) => m.label), (m) => m.mesh, moreOf(meshes, 'mesh'));
    const isAlive = (x) => x.state === 'alive';
    this.hosts.update(sorted(hosts.shown, isAlive, (x) => x.host), (x) => x.id, moreOf(hosts, 'host'));
    this.worlds.update(worlds.shown, (w) => w.name, moreOf(worlds, 'world'));
    const facts = [plural(meshes.count, 'mesh'), plural(line.ranks, 'rank'), plural(hosts.count, 'host')];
    say(this.sum, [...facts, line.leader ? `led by ${line.leader.split('/')[0]}` : ''].filter(Boolean).join(' · '));
    this.none.hidden = meshes.count > 0;
    redo(this.none, hosts.count > 0, () => nothingRuns(hosts.count > 0));
  }

  close() { this.stream.close(); }
}

const nothingRuns = (hasHosts) => [
  h('h2', {}, hasHosts ? 'No mesh is running' : 'No host answers'),
  h('p', {}, hasHosts ? 'Start one from your program, or try one with a built-in actor:' : 'Start a host:'),
  h('p.row', {}, ...copyable(hasHosts ? 'castnet up demo --per-host gpu=4 --actor counter' : 'hostd')),
];

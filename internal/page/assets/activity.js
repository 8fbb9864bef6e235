// What happens: events and output lines. Each part has a stream of its own.

import { Stream } from './api.js';
import { markOf } from './colour.js';
import { clock, h, say } from './dom.js';

const KEPT_EVENTS = 500;
const KEPT_LINES = 1000;

const query = (params) => new URLSearchParams(Object.entries(params).filter(([, v]) => v !== ''));

/** A list that a stream fills, and a note that says why it is empty or old. */
class Feed {
  constructor(what, list) {
    Object.assign(this, { what, list, note: h('p.muted', {}, `No ${what} yet.`) });
  }

  open(path) {
    this.stream ??= new Stream(path, (line) => {
      this.tell(line.error ? `Not complete: ${line.error}` : '');
      if (!line.error) this.add(line);
    }, (s) => this.state(s));
  }

  state({ kind, cause }) {
    if (kind === 'lost') this.tell(`Cannot read ${this.what}: ${cause}.`);
    if (kind === 'ended') this.tell(`The ${this.what} have ended: ${cause}.`);
  }

  tell(text) { say(this.note, text || (this.list.children.length === 0 ? `No ${this.what} yet.` : '')); }

  close() {
    this.stream?.close();
    this.stream = null;
  }

  /** A part that people open and close, and its stream with it. */
  details(title, open, path) {
    const el = h('details.part', { open }, h('summary', {}, title), this.note, this.list);
    el.ontoggle = () => (el.open ? this.open(path) : this.close());
    return el;
  }
}

/** Events, newest first. With a mesh, those of the mesh alone. */
export class Events extends Feed {
  #seen = new Set(); // a stream that opens again may repeat them

  constructor(mesh) {
    super('events', h('ol.events', { tabIndex: 0, 'aria-label': 'Events, newest first' }));
    this.mesh = mesh;
    this.filter = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter events by text' });
    this.filter.oninput = () => this.sift(this.list.children);
    this.number = h('span.muted');
    this.el = h('section', {},
      h('header.row', {}, h('h2', {}, 'Events'), this.number, this.filter), this.note, this.list);
    this.open(`/api/events?${query({ mesh })}`);
  }

  add(e) {
    const key = [e.at, e.kind, e.mesh, e.rank, e.status, e.reason].join('\n');
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    this.list.prepend(Object.assign(eventItem(e, this.mesh !== ''), { dataKey: key }));
    if (this.list.children.length > KEPT_EVENTS) {
      this.#seen.delete(this.list.lastChild.dataKey);
      this.list.lastChild.remove();
    }
    this.sift([this.list.firstChild]);
  }

  sift(items) {
    const want = this.filter.value.trim().toLowerCase();
    for (const li of items) li.hidden = !li.textContent.toLowerCase().includes(want);
    const all = this.list.children.length;
    const shown = want ? this.list.querySelectorAll('li:not([hidden])').length : all;
    say(this.number, want ? `${shown} of ${all}` : `${all}`);
    this.tell(all > 0 && shown === 0 ? 'No event has this text.' : '');
  }
}

function eventItem(e, oneMesh) {
  const name = (oneMesh && e.point) || e.subject;
  const rank = ['proc', 'actor', 'rank'].includes(e.kind) ? `/rank/${e.rank}` : '';
  const what = e.mesh ? h('a', { href: `#/mesh/${e.mesh}${rank}` }, name) : name;
  const root = e.causes?.at(-1) ?? e.reason;
  const why = [e.reason, root !== e.reason && `← ${root}`].filter(Boolean).join(' ');
  return h(['failed', 'dead'].includes(e.status) ? 'li.failed' : 'li', {},
    h('time', { dateTime: e.at }, clock(e.at)), markOf(e.status),
    h('span', {}, `${e.kind} `, what, ` ${e.status}${why ? ': ' : ''}`, h('span.why', {}, why)));
}

/** Live output of a region of a mesh; '' is all of it. Nothing is asked before people open it. */
export class Output extends Feed {
  constructor(mesh, region, several) {
    super('lines', h('ol.output', { tabIndex: 0, 'aria-label': 'Output lines, newest last' }));
    this.several = several;
    this.el = this.details(h('h3', {}, 'Live output'), false,
      `/api/meshes/${encodeURIComponent(mesh)}/logs?${query({ region, tail: '100' })}`);
  }

  state(s) {
    if (s.kind === 'connecting') this.list.replaceChildren(); // the tail comes again
    super.state(s);
  }

  add({ at, stream, point, text, count: n }) {
    const { list } = this;
    const follows = list.scrollTop + list.clientHeight > list.scrollHeight - 30;
    const from = this.several ? h('span.muted', {}, `[${point}]${n > 1 ? ` ${n}×` : ''} `) : null;
    list.append(h(stream === 'stderr' ? 'li.stderr' : 'li', { title: `${clock(at)} ${stream}` }, from, text));
    if (list.children.length > KEPT_LINES) list.firstChild.remove();
    if (follows) list.scrollTop = list.scrollHeight;
    this.tell('');
  }
}

// What happens: events and output lines.

import { Stream } from './api.js';
import { markOf } from './colour.js';
import { clock, h, say } from './dom.js';

const KEPT_EVENTS = 500;
const KEPT_LINES = 1000;

const query = (params) => new URLSearchParams(Object.entries(params).filter(([, v]) => v !== ''));

/** Events, newest first. They are lines of the main stream of a view. */
export class Events {
  #seen = new Set(); // a stream that opens again may repeat them

  /** @param {boolean} oneMesh they name ranks by their point */
  constructor(oneMesh) {
    this.oneMesh = oneMesh;
    this.list = h('ol.events', { tabIndex: 0, 'aria-label': 'Events, newest first' });
    this.note = h('p.muted', {}, 'No events yet.');
    this.filter = h('input', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter events by text' });
    this.filter.oninput = () => this.sift(this.list.children);
    this.number = h('span.muted');
    this.el = h('section', {},
      h('header.row', {}, h('h2', {}, 'Events'), this.number, this.filter), this.note, this.list);
  }

  /** Takes a line of the main stream. @returns {boolean} whether it was for the events */
  take({ event, events_note: note }) {
    if (event) this.add(event);
    if (note) say(this.note, note);
    return Boolean(event || note);
  }

  add(e) {
    const key = [e.at, e.kind, e.mesh, e.rank, e.status, e.reason].join('\n');
    if (this.#seen.has(key)) return;
    this.#seen.add(key);
    const item = Object.assign(eventItem(e, this.oneMesh), { dataKey: key, at: Date.parse(e.at) });
    const older = [...this.list.children].find((li) => li.at <= item.at); // past ones come late
    this.list.insertBefore(item, older ?? null);
    if (this.list.children.length > KEPT_EVENTS) {
      this.#seen.delete(this.list.lastChild.dataKey);
      this.list.lastChild.remove();
    }
    this.sift([item]);
  }

  sift(items) {
    const want = this.filter.value.trim().toLowerCase();
    for (const li of items) li.hidden = !li.textContent.toLowerCase().includes(want);
    const all = this.list.children.length;
    const shown = want ? this.list.querySelectorAll('li:not([hidden])').length : all;
    say(this.number, want ? `${shown} of ${all}` : `${all}`);
    say(this.note, all > 0 && shown === 0 ? 'No event has this text.' : all === 0 ? 'No events yet.' : '');
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
export class Output {
  constructor(mesh, region, several) {
    this.several = several;
    this.path = `/api/meshes/${encodeURIComponent(mesh)}/logs?${query({ region, tail: '100' })}`;
    this.list = h('ol.output', { tabIndex: 0, 'aria-label': 'Output lines, newest last' });
    this.note = h('p.muted');
    this.tell('');
    this.el = h('details.part', {}, h('summary', {}, h('h3', {}, 'Live output')), this.note, this.list);
    this.el.ontoggle = () => (this.el.open ? this.open() : this.close());
  }

  open() {
    this.stream ??= new Stream(this.path, (line) => {
      this.tell(line.error ? `Not complete: ${line.error}` : '');
      if (!line.error) this.add(line);
    }, (s) => this.state(s));
  }

  close() {
    this.stream?.close();
    this.stream = null;
  }

  state({ kind, cause }) {
    if (kind === 'connecting') this.list.replaceChildren(); // the tail comes again
    if (kind === 'lost') this.tell(`Cannot read lines: ${cause}.`);
    if (kind === 'ended') this.tell(`The lines have ended: ${cause}.`);
  }

  tell(text) { say(this.note, text || (this.list.children.length === 0 ? 'No lines yet.' : '')); }

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

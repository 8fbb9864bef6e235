// The side panel of one rank: its process, actors, last failure and output.

import { Output } from './activity.js';
import { get } from './api.js';
import { markOf } from './colour.js';
import { bytes, clock, count, h, redo, say, since } from './dom.js';

export class RankPanel {
  /** @param {{onClose: () => void, onSelect: (rank: number) => void}} on */
  constructor(mesh, on) {
    this.mesh = mesh;
    this.title = h('h2', { tabIndex: -1, id: 'rank-title' });
    this.status = h('p.state');
    this.note = h('p.notice', { hidden: true });
    [this.facts, this.failure, this.actors, this.output] = [h('dl.facts'), h('div'), h('div'), h('div')];
    const button = (text, onclick) => h('button.small', { type: 'button', onclick }, text);
    this.el = h('section.rank', { hidden: true, 'aria-labelledby': 'rank-title' },
      h('header.row', {}, this.title,
        h('span.buttons.end', {}, button('Select', () => on.onSelect(this.rank)), button('Close', on.onClose))),
      this.status, this.note, this.facts, this.failure, this.actors, this.output);
    this.el.onkeydown = (e) => { if (e.key === 'Escape') on.onClose(); };
  }

  open(rank, point) {
    this.close();
    this.rank = rank;
    this.el.hidden = false;
    this.el.scrollTop = 0;
    say(this.title, point || `rank ${rank}`);
    say(this.note, '');
    redo(this.status, rank, () => h('span.muted', {}, `rank ${rank} · asking its host…`));
    for (const part of [this.facts, this.failure, this.actors]) redo(part, null, () => []);
    this.live = new Output(this.mesh, point, false);
    this.output.replaceChildren(this.live.el);
    this.poll(this.stop = new AbortController());
  }

  /** Ends what the panel does; the element stays. */
  close() {
    this.stop?.abort();
    this.live?.close();
    this.el.hidden = true;
  }

  async poll(stop) {
    const path = `/api/meshes/${encodeURIComponent(this.mesh)}/ranks/${this.rank}`;
    const r = document.hidden ? {} : await get(path, stop.signal).catch((failed) => ({ failed }));
    if (stop.signal.aborted) return;
    say(this.note, r.failed ? `Cannot read rank ${this.rank}: ${r.failed.message}.` : '');
    if (r.status) this.show(r);
    if (r.failed?.status !== 404) setTimeout(() => { if (!stop.signal.aborted) this.poll(stop); }, 5000);
  }

  show(r) {
    redo(this.status, [r.status, r.rank, r.generation], () => [
      markOf(r.status), r.status, h('span.muted', {}, `· rank ${r.rank}, generation ${r.generation}`)]);
    const ofLive = ['failed', 'stopped'].includes(r.status) ? {} : r; // what an ended process no longer has
    const known = (value, text) => (value === undefined ? '' : text(value));
    const facts = [
      ['Host', r.host], ['Process', r.pid && `${r.pid}`], ['Started', known(r.started, (at) => `${since(at)} ago`)],
      ['CPU', known(ofLive.cpu, (n) => `${count(n)} %`)], ['Memory', known(ofLive.memory, bytes)],
      ['Queued', r.missing ? '' : known(ofLive.queued, count)], ['Handled', r.missing ? '' : known(r.handled, count)],
      ['Restarts', known(r.generation, count)], ['Handler now', ofLive.busy],
    ].filter(([, text]) => text);
    redo(this.facts, facts, () => facts.map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));
    redo(this.failure, r.failure ?? null, () => (r.failure ? failureOf(r.failure) : []));
    redo(this.actors, [r.actors, r.missing], () => actorsOf(r.actors ?? [], r.missing));
  }
}

const actorsOf = (actors, missing) => [
  h('h3', {}, actors.length > 0 ? 'Actors' : missing ? `Cannot list actors: ${missing}` : 'No actor runs on this rank'),
  h('ul.actors', {}, ...actors.map((a) => h('li', {},
    h('div.row', {}, h('strong', {}, a.actor), a.type && a.type !== a.actor ? h('span.muted', {}, a.type) : null,
      h('span.state.end', {}, markOf(a.status), a.status)),
    h('div', {}, a.reason ?? ''),
    h('div.muted', {}, `${a.current ? `handles ${a.current}` : 'idle'} · ${count(a.queued)} queued · ${count(a.handled)} handled`),
    h('div.muted', {}, `endpoints: ${(a.endpoints ?? []).join(', ') || 'none'}`)))),
];

/** What failed and when, the chain of causes with the root last, and the last lines. */
function failureOf(f) {
  const ends = [f.exit_code && `exit code ${f.exit_code}`, f.signal && `signal ${f.signal}`];
  const causes = f.causes?.length ? f.causes : [f.reason];
  return [
    h('h3', {}, 'Last failure'),
    h('p.state', {}, markOf('failed'), [clock(f.at), ...ends].filter(Boolean).join(' · ')),
    h('ol.causes', { 'aria-label': 'Causes, the root last' }, ...causes.map((c) => h('li', {}, c))),
    f.stderr_tail?.length
      ? h('pre', { tabIndex: 0, role: 'region', 'aria-label': 'Last lines of stderr' }, f.stderr_tail.join('\n')) : null,
  ];
}

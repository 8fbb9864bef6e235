// The casts that run on a mesh, with their coverage so far.

import { duration, h, meter, plural, redo, say } from './dom.js';

const NONE = 'No cast waits for replies. Streams and plain sends do not show.';
const bracket = (region) => (region === '*' ? 'all ranks' : `[${region}]`);

export class Casts {
  #items = new Map(); // by cast, so that a button keeps its focus

  /** @param {(region: string) => void} onSelect takes one region as the commands read it */
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.list = h('ul.casts');
    this.note = h('p.muted', {}, NONE);
    this.el = h('section', { 'aria-label': 'Casts' }, h('h2', {}, 'Casts'), this.note, this.list);
  }

  /** @param {object} line of the main stream, as frameLine in meshes.go */
  show({ casts, more_casts: more, casts_silent: silent, casts_missing: missing, part }) {
    const all = casts ?? [];
    const old = this.#items;
    this.#items = new Map(all.map((c) => [c.id, old.get(c.id) ?? h('li', {}, h('div.row'), h('div'), h('div.row'))]));
    for (const c of all) this.fill(this.#items.get(c.id), c);
    redo(this.list, [...this.#items.keys()], () => [...this.#items.values()]);
    const lacks = [more && `${plural(more, 'cast')} more`, silent && `${bracket(silent)} does not answer`,
      missing && `Not known: ${missing}`, part && 'Casts and their coverage are those of the ranks that were asked'];
    say(this.note, lacks.filter(Boolean).join('. ') || (all.length > 0 ? '' : NONE));
  }

  fill(li, c) {
    const [head, bar, foot] = li.children;
    const time = `runs for ${duration(c.age / 1e6)}, ${duration(c.left / 1e6)} left`;
    redo(head, [time, c.region], () => [h('strong', {}, `${c.actor}.${c.endpoint}`),
      c.region ? bracket(c.region) : null, h('span.muted.end', { title: `by ${c.from}` }, time)]);
    redo(bar, [c.asked, c.answered, c.failed], () => [meter(c.asked, { running: c.answered, failed: c.failed }),
      `asked ${c.asked} · answered ${c.answered} · failed ${c.failed}`]);
    redo(foot, [c.waiting, c.silent], () => [
      c.waiting ? h('span', {}, `no answer yet from ${bracket(c.waiting)}`) : null,
      c.silent ? h('span.muted', {}, `the procs of ${bracket(c.silent)} do not tell`) : null,
      c.waiting && !c.waiting.includes('|') ? h('button.small', {
        type: 'button', 'aria-label': `Select ${c.waiting}`, onclick: () => this.onSelect(c.waiting),
      }, 'Select') : null]);
  }
}

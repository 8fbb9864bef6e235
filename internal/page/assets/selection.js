// The selected region: its text, its size, its commands, and buttons that run them.

import { Output } from './activity.js';
import { act, get } from './api.js';
import { copyable, h, plural, redo, say } from './dom.js';
import { commandsFor, parseRegion, rankCount, regionText } from './region.js';

const HINT = 'Drag over the map, or type a region, to get its commands. * is every rank.';

/** The name of an actor without the unique part that its mesh gave it. */
const label = (actor) => actor.replace(/-[a-z0-9]{13}$/, '');

export class Selection {
  region = null;

  /**
   * @param {object} app
   * @param {string} mesh the ID
   * @param {{onSelect: (region: object[] | null) => void, sampleRank: (region: object[]) => number}} on
   */
  constructor(app, mesh, on) {
    Object.assign(this, { app, mesh, on });
    this.input = h('input.mono', { id: 'region', spellcheck: false, 'aria-describedby': 'region-error' });
    this.error = h('p.error', { id: 'region-error', role: 'alert', hidden: true });
    this.sum = h('p.sum', { 'aria-live': 'polite' }, HINT);
    this.clear = h('button.small.end', { type: 'button', hidden: true, onclick: () => on.onSelect(null) }, 'Clear');
    const form = h('form.row', { onsubmit: (e) => this.read(e) }, h('label', { for: 'region' }, 'Region'), this.input,
      h('button', { type: 'submit' }, 'Show'));
    this.endpoint = h('select', { onchange: () => this.showCommands() }); // its values are an actor and an endpoint
    this.body = h('input.mono', { value: '{}', spellcheck: false, oninput: () => this.showCommands() });
    this.cast = h('div.row.cast', { hidden: true }, h('label', {}, 'Actor and endpoint', this.endpoint),
      h('label', {}, 'Message, JSON', this.body));
    [this.commands, this.output] = [h('ul.commands'), h('div')];
    this.result = h('div', { 'aria-live': 'polite' });
    this.dialog = h('dialog', { 'aria-labelledby': 'confirm' });
    this.el = h('section.region', {}, h('h2', {}, 'Selection'), form, this.error, h('div.row', {}, this.sum, this.clear),
      this.cast, this.commands, this.result, this.output, this.dialog);
  }

  /** @param {{name: string, world: boolean, grid: object}} mesh name is how commands call it */
  setMesh(mesh) {
    Object.assign(this, mesh);
    this.input.placeholder = mesh.grid.labels.map((label) => `${label}=0`).join(',') || '*';
    this.showCommands();
  }

  /** Reads the typed region. */
  read(e) {
    e.preventDefault();
    try {
      this.on.onSelect(parseRegion(this.grid, this.input.value));
    } catch (cause) {
      say(this.error, cause.message);
      this.input.setAttribute('aria-invalid', 'true');
    }
  }

  /** Shows a region, or null. */
  show(region) {
    this.region = region;
    const text = region && regionText(this.grid, region);
    this.close();
    this.live = region && new Output(this.mesh, text, true);
    this.output.replaceChildren(...(region ? [this.live.el] : []));
    this.result.replaceChildren();
    say(this.error, '');
    this.input.removeAttribute('aria-invalid');
    this.input.value = region ? text || '*' : '';
    this.clear.hidden = this.cast.hidden = !region;
    say(this.sum, region ? `${plural(rankCount(region), 'rank')} selected${text ? '' : ': the whole mesh'}` : HINT);
    this.showCommands();
    if (region) this.timer = setTimeout(() => this.askActors(region), 250);
  }

  /** Offers the endpoints of a rank of the region, and keeps the chosen one. */
  async askActors(region) {
    const path = `/api/meshes/${encodeURIComponent(this.mesh)}/ranks/${this.on.sampleRank(region)}`;
    const rank = await get(path).catch(() => null);
    if (!rank || region !== this.region) return;
    const kept = this.endpoint.value;
    const all = (rank.actors ?? []).flatMap((a) => (a.endpoints ?? []).map((e) => ({ // add(int64) int64
      value: `${label(a.actor)} ${e.split('(')[0]}`, text: `${label(a.actor)} ${e}`,
    })));
    redo(this.endpoint, all, () =>
      all.map(({ value, text }) => h('option', { value, selected: value === kept }, text)));
    this.showCommands();
  }

  showCommands() {
    const { region, name, world, endpoint, body } = this;
    if (!region) return redo(this.commands, null, () => []);
    const order = { mesh: name, world, region: regionText(this.grid, region), body: body.value.trim() };
    [order.actor, order.endpoint] = endpoint.value.split(' ');
    const focused = this.buttons().indexOf(document.activeElement); // the new button in its place gets the focus
    redo(this.commands, order, () => [
      ...commandsFor(order).map((c) => this.commandItem(c, order)),
      world ? h('li.muted', {}, 'The procs of a world restart with their hostd.') : null,
    ]);
    if (focused >= 0 && document.activeElement !== this.buttons()[focused]) this.buttons()[focused]?.focus();
  }

  buttons() {
    return [...this.commands.querySelectorAll('button')];
  }

  commandItem(c, order) {
    const [code, copy] = copyable(c.line);
    const props = { type: 'button', 'aria-label': `Run: ${c.title}`, disabled: c.verb === 'cast' && !order.endpoint };
    const run = h('button.small', { ...props, onclick: () => this.start(c, order) }, c.ask ? 'Run…' : 'Run');
    const buttons = this.app.info.act && c.verb !== 'logs' ? [copy, run] : [copy];
    return h('li', {}, h('span.muted', {}, c.title), code, h('span.buttons', {}, ...buttons));
  }

  /** Runs a command, after a question if it ends procs. */
  start(c, order) {
    if (!c.ask) return this.run(c, order);
    const all = this.grid.sizes.reduce((n, s) => n * s, 1);
    const question = c.verb === 'stop' ? `Stop all ${plural(all, 'rank')} of ${this.name}, not only the selected ones?`
      : `Restart ${plural(rankCount(this.region), 'rank')} one after another? They lose their state in memory.`;
    const button = (kind, text, value) => h(kind, { type: 'button', onclick: () => this.dialog.close(value) }, text);
    this.dialog.onclose = () => { if (this.dialog.returnValue === 'yes') this.run(c, order); };
    this.dialog.returnValue = 'no'; // also of Escape
    this.dialog.replaceChildren(h('p', { id: 'confirm' }, question),
      h('p.row', {}, button('button', 'Keep running', 'no'), button('button.danger', c.title, 'yes')));
    this.dialog.showModal();
  }

  async run(c, { region, actor, endpoint, body }) {
    this.result.replaceChildren(h('p.muted', {}, `${c.title}: running…`));
    try {
      const what = c.verb === 'cast' ? { actor, endpoint, body: JSON.parse(body || 'null') } : {};
      const text = await act({ verb: c.verb, mesh: this.mesh, region: c.verb === 'stop' ? '' : region, ...what });
      this.result.replaceChildren(h('h3', {}, c.title),
        h('pre', { tabIndex: 0, role: 'region', 'aria-label': `Result: ${c.title}` }, text.trim() || 'Done.'));
    } catch (e) {
      this.result.replaceChildren(h('p.error', {}, `Cannot run ${c.line}: ${e.message}`));
    }
  }

  close() {
    clearTimeout(this.timer);
    this.live?.close();
  }
}

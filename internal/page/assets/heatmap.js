// The heat map: all ranks of a mesh on one canvas, which is as large as its view and draws what is in it.

import { markMask, markOf, readPalette, UNKNOWN, valueOf } from './colour.js';
import { about, count, h, redo } from './dom.js';
import { facetAt, layoutOf, placeAt, placeOf, pointAt, stepFrom } from './layout.js';
import { paintCells, paintLabels, paintPlace, paintRegion } from './paint.js';
import { pointOf, pointText, rankOf } from './region.js';

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const HATCH = 'repeating-linear-gradient(135deg, var(--hatch) 0 1px, var(--map) 1px 3px)';
const HELP = 'Arrow keys move between ranks, Shift with arrow keys selects, Enter opens the rank, Escape clears.';

export class HeatMap {
  column = 0;
  dragSelects = false; // also on a touch screen, where a finger scrolls
  #data = null; // a byte for each column and rank
  #ranges = []; // the lowest and the highest byte of each column so far, so that the legend keeps still
  #region = null;
  #focus = 0; // a rank
  #anchor = null; // the place where a selection began
  #hover = null; // a place
  #drag = null; // a place, and whether the pointer has left it
  #frame = 0;
  #stale = true; // the cells must be drawn again, not only what lies over them

  /** @param {{onOpen: (rank: number, byKey: boolean) => void, onSelect: (region: object[] | null) => void}} on */
  constructor(on) {
    this.on = on;
    const canvas = (this.canvas = h('canvas', {
      tabIndex: 0, role: 'application', 'aria-roledescription': 'heat map',
      onpointerdown: (e) => this.#press(e), onpointermove: (e) => this.#move(e), onpointerup: () => this.#release(),
      onpointercancel: () => { this.#drag = null; }, onpointerleave: () => this.#point(null),
      onkeydown: (e) => this.#key(e), onfocus: () => this.#redraw(), onblur: () => this.#redraw(),
    }));
    this.ctx = canvas.getContext('2d');
    this.sheet = h('div.sheet', {}, canvas); // as large as all cells; the canvas keeps in view
    this.view = h('div.map', { onscroll: () => this.#redraw(true) }, this.sheet);
    this.tip = h('div.tip', { hidden: true, 'aria-hidden': 'true' });
    this.spoken = h('p.unseen', { 'aria-live': 'polite' });
    this.legend = h('ul.legend', { 'aria-label': 'Legend' });
    this.el = h('div.heat', {}, this.view, this.tip, this.legend, this.spoken);
    this.resizer = new ResizeObserver(() => this.arrange());
    this.resizer.observe(this.view);
    this.scheme = matchMedia('(prefers-color-scheme: dark)');
    this.scheme.onchange = () => this.arrange();
  }

  close() {
    this.resizer.disconnect();
    this.scheme.onchange = null;
  }

  /**
   * @param {{mesh: object, statuses: string[], columns: {name: string, unit?: string}[]}} header
   * @returns {boolean} whether the extent is another one
   */
  setHeader(header) {
    const old = this.grid;
    this.header = header;
    this.grid = { labels: header.mesh.labels ?? [], sizes: header.mesh.sizes ?? [] };
    this.ranks = this.grid.sizes.reduce((n, s) => n * s, 1);
    const changed = JSON.stringify(old) !== JSON.stringify(this.grid);
    if (changed) {
      this.axes ??= { x: this.grid.sizes.length - 1, y: this.grid.sizes.length - 2 }; // its dimensions never change
      this.#data = this.#region = this.#hover = this.#anchor = null;
      this.#focus = Math.min(this.#focus, this.ranks - 1);
    }
    this.canvas.setAttribute('aria-label', `${this.ranks} ranks of ${header.mesh.label}. ${HELP}`);
    this.arrange();
    return changed;
  }

  setData(data) {
    if (data.length < this.ranks * this.header.columns.length) return;
    this.#data = data;
    this.setColumn(this.column);
    this.#showTip();
  }

  #bytes(column) { return this.#data?.subarray(column * this.ranks, (column + 1) * this.ranks); }

  /** Shows a column. */
  setColumn(at) {
    this.column = at;
    let [low, top] = this.#ranges[this.column] ?? [255, 1];
    for (const byte of this.#bytes(this.column) ?? []) {
      if (byte === UNKNOWN && at > 0) continue;
      if (byte > top) top = byte;
      if (byte > 0 && byte < low) low = byte;
    }
    this.#ranges[this.column] = [Math.min(low, top), top];
    this.#showLegend();
    this.#redraw(true);
  }

  /** @param {object[] | null} region as in region.js */
  setRegion(region) {
    this.#region = region;
    this.#redraw(true);
  }

  /** Marks the rank whose panel is open, if any. */
  setOpened(rank) {
    this.opened = rank;
    if (rank !== undefined) this.#moveTo(rank);
    this.#redraw();
  }

  /** The status of a rank, once there is data. */
  statusOf(rank) { return this.header.statuses[this.#data?.[rank]]; }

  #place(rank) { return placeOf(this.l, pointOf(this.grid.sizes, rank)); }

  #rank(place) { return rankOf(this.grid.sizes, pointAt(this.l, place)); }

  /** Fits the cells into the view, and the canvas to what is in view. */
  arrange() {
    if (!this.header || this.view.clientWidth === 0) return;
    const unit = (this.unit = devicePixelRatio || 1);
    const { ctx, view, canvas, sheet, grid: { labels, sizes }, axes: { x, y } } = this;
    this.palette = readPalette();
    ctx.font = this.font = `${Math.round(11 * unit)}px system-ui, sans-serif`;
    const widest = (...texts) => Math.ceil(Math.max(...texts.map((t) => ctx.measureText(t).width)));
    const left = widest(y < 0 ? '' : `${labels[y]} ↓`, `${sizes[y]}`) + Math.round(10 * unit);
    const facet = labels.map((label, d) => (d === x || d === y ? '' : `${label}=${sizes[d]}`)).filter(Boolean).join();
    const name = widest(facet);
    const bandName = widest([facet, `${sizes[y]}`].filter(Boolean).join(' · '));
    const width = Math.floor(view.clientWidth * unit);
    const height = Math.floor(Math.max(260, Math.min(760, innerHeight - 205)) * unit);
    const l = (this.l = layoutOf({ sizes, x, y, width, height, left, name, bandName, unit }));
    view.style.height = `${Math.ceil(Math.min(l.height, height) / unit) + (l.width > width ? 14 : 0)}px`; // a scroll bar
    canvas.width = Math.min(width, l.width);
    canvas.height = Math.min(Math.floor(view.clientHeight * unit), l.height);
    const resize = (el, of) => Object.assign(el.style, { width: `${of.width / unit}px`, height: `${of.height / unit}px` });
    resize(canvas, canvas);
    resize(sheet, l);
    this.side = l.cell - (l.cell >= 5 * unit ? Math.round(unit) : 0);
    this.marks = this.header.statuses.map((s) => (l.cell >= 8 * unit || s === 'failed' ? markMask(s, this.side) : null));
    this.image = null;
    this.#showLegend();
    this.#redraw(true);
  }

  #redraw(cells = false) {
    this.#stale ||= cells;
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  /** @returns {import('./paint.js').Picture} */
  #picture() {
    const { l, grid, palette, header, side, column, unit, canvas: { width, height } } = this;
    const [left, top] = [this.view.scrollLeft, this.view.scrollTop].map((n) => Math.round(n * unit));
    const shown = header.statuses.map((s) => column === 0 || s === 'failed'); // the others have their values alone
    return {
      l, grid, palette, side, view: { width, height, unit, left, top }, region: this.#region,
      statuses: this.#bytes(0), values: this.#bytes(column),
      colours: column === 0 ? [] : Array.from({ length: 256 }, (_, b) => this.#colour(b)),
      marks: this.marks.map((m, i) => shown[i] && m), fixed: header.statuses.map((s, i) => shown[i] && palette.status(s)),
    };
  }

  /** The colour of a byte of the shown column, which is a number. */
  #colour(byte) {
    const [low, top] = this.#ranges[this.column];
    if (byte === UNKNOWN) return this.palette.none;
    return byte === 0 ? this.palette.zero : this.palette.ramp((byte - low) / Math.max(1, top - low));
  }

  #draw() {
    this.#frame = 0;
    const { ctx, canvas } = this;
    if (!this.l || canvas.width === 0) return;
    const p = this.#picture();
    this.image ??= ctx.createImageData(canvas.width, canvas.height);
    if (this.#stale) paintCells(p, this.image);
    this.#stale = false;
    ctx.putImageData(this.image, 0, 0);
    ctx.font = this.font;
    if (this.#region) paintRegion(ctx, p);
    if (this.#hover) paintPlace(ctx, p, this.#hover, 1);
    if (this.opened !== undefined) paintPlace(ctx, p, this.#place(this.opened), 2);
    if (document.activeElement === canvas) paintPlace(ctx, p, this.#place(this.#focus), 2);
    paintLabels(ctx, p);
  }

  /** The place under a pointer. */
  #placeAt(e, within) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [(e.clientX - box.left) * this.unit, (e.clientY - box.top) * this.unit];
    if (within === undefined && (x < this.l.left || y < this.l.top)) return null;
    return placeAt(this.l, x + this.view.scrollLeft * this.unit, y + this.view.scrollTop * this.unit, within);
  }

  #press(e) {
    const place = this.l && e.button === 0 ? this.#placeAt(e) : null;
    if (!place) return;
    this.#drag = { ...place, moved: false };
    if (e.pointerType === 'mouse' || this.dragSelects) this.canvas.setPointerCapture(e.pointerId); // or it scrolls
  }

  #move(e) {
    const drag = this.#drag;
    if (!this.l || !drag) return this.l && this.#point(this.#placeAt(e));
    const to = this.#placeAt(e, drag.facet);
    drag.moved ||= to.col !== drag.col || to.row !== drag.row;
    if (!drag.moved) return;
    const box = this.view.getBoundingClientRect();
    const push = (at, low, high) => (at < low ? -12 : at > high ? 12 : 0);
    this.view.scrollBy(push(e.clientX, box.left, box.right), push(e.clientY, box.top, box.bottom));
    this.#select(drag, to);
    this.#point(null);
  }

  #release() {
    const drag = this.#drag;
    this.#drag = null;
    if (!drag) return;
    this.#anchor = drag;
    this.#moveTo(this.#rank(drag));
    if (!drag.moved) this.on.onOpen(this.#focus, false);
  }

  #key(e) {
    if (!this.l) return;
    const here = this.#place(this.#focus);
    if (e.key === 'Enter' || e.key === ' ') this.on.onOpen(this.#focus, true);
    else if (e.key === 'Escape') this.on.onSelect(null);
    else if (ARROWS[e.key]) {
      const to = stepFrom(this.l, here, ...ARROWS[e.key]);
      if (!e.shiftKey) this.#anchor = null;
      else if (to.facet === here.facet) this.#select((this.#anchor ??= here), to);
      if (!e.shiftKey || to.facet === here.facet) this.#say(this.#rank(to));
    } else return;
    e.preventDefault();
  }

  /** Selects the rectangle between two places of a facet; the dimensions of the facet are fixed. */
  #select(a, b) {
    const to = pointAt(this.l, b);
    const span = (i, d) => ({ begin: Math.min(i, to[d]), end: Math.max(i, to[d]) + 1, step: 1 });
    this.on.onSelect(pointAt(this.l, a).map(span));
  }

  /** Gives a rank the focus, and scrolls to it. */
  #moveTo(rank) {
    this.#focus = rank;
    if (!this.l) return;
    const { l, unit, view, canvas } = this;
    const place = this.#place(rank);
    const at = facetAt(l, place.facet);
    const into = (now, low, high, pos) => Math.max(Math.min(now, pos - low), pos + l.cell - high);
    view.scrollTo(into(view.scrollLeft * unit, l.left, canvas.width, at.left + place.col * l.cell) / unit,
      into(view.scrollTop * unit, l.top + l.label, canvas.height, at.top + place.row * l.cell) / unit);
    this.#redraw();
  }

  #point(place) {
    if (JSON.stringify(place) === JSON.stringify(this.#hover)) return;
    this.#hover = place;
    this.#showTip();
    this.#redraw();
  }

  /** Gives the focus to the next rank with a status. */
  #find(status) {
    const all = this.#bytes(0);
    const next = all.indexOf(status, this.#focus + 1);
    this.canvas.focus();
    this.#say(next >= 0 ? next : all.indexOf(status));
  }

  /** Gives a rank the focus, and says what is known of it. */
  #say(rank) {
    this.#moveTo(rank);
    this.spoken.textContent = this.#words(rank).join(', ');
  }

  /** What is known of a rank: its number, point, status, and the other columns. */
  #words(rank) {
    const { grid, header, ranks } = this;
    const text = (byte, unit) => (byte === UNKNOWN ? 'not known' : `${about(valueOf(byte))} ${unit}`.trim());
    const values = header.columns.map(({ name, unit = '' }, c) =>
      `${name} ${text(this.#data?.[c * ranks + rank], unit)}`);
    const known = this.#data ? [this.statusOf(rank), ...values.slice(1)] : ['unknown'];
    return [`rank ${rank}`, pointText(grid, pointOf(grid.sizes, rank)), ...known];
  }

  #showTip() {
    const { l, unit, tip, view } = this;
    tip.hidden = !this.#hover;
    if (tip.hidden) return;
    const [rank, point, status, ...values] = this.#words(this.#rank(this.#hover));
    redo(tip, [rank, point, status, values], () => [
      h('strong', {}, point || rank), h('span.state', {}, markOf(status), `${status} · ${rank}`),
      ...values.map((v) => h('div', {}, h('span.muted', {}, v.split(' ')[0]), h('b', {}, v.slice(v.indexOf(' ') + 1))))]);
    const at = facetAt(l, this.#hover.facet);
    const beside = (start, scroll, size, room) => { // of the cell, in a view of that size
      const [from, to] = [start / unit - scroll - 8, (start + l.cell) / unit - scroll + 8];
      return `${Math.max(0, to + size > room ? from - size : to)}px`;
    };
    tip.style.left = beside(at.left + this.#hover.col * l.cell, view.scrollLeft, tip.offsetWidth, view.clientWidth);
    tip.style.top = beside(at.top + this.#hover.row * l.cell, view.scrollTop, tip.offsetHeight, view.clientHeight + 80);
  }

  #showLegend() {
    if (!this.header || !this.palette) return;
    const { statuses, columns } = this.header;
    if (this.column === 0) {
      const numbers = statuses.map(() => 0);
      this.#bytes(0)?.forEach((s) => numbers[s]++);
      return redo(this.legend, [statuses, numbers], () => statuses.map((s, i) => h('li', {}, h('button.small', {
        type: 'button', title: `Go to the next ${s} rank`, disabled: numbers[i] === 0, onclick: () => this.#find(i),
      }, markOf(s), s, h('b', {}, count(numbers[i]))))));
    }
    const { name, unit } = columns[this.column];
    const [low, top] = this.#ranges[this.column];
    const steps = [0, 0.25, 0.5, 0.75, 1].map((t) => Math.round(low + t * (top - low)));
    const swatches = [...new Set([0, ...steps])].map((b) => [this.#colour(b).css, about(valueOf(b))]);
    const hasUnknown = this.#bytes(this.column)?.includes(UNKNOWN) ?? false;
    redo(this.legend, [name, unit, swatches, hasUnknown], () => [
      h('li', {}, unit ? `${name}, ${unit}` : name),
      ...swatches.map(([css, text]) => h('li', {}, markOf('running', css), text)),
      hasUnknown ? h('li', {}, markOf('running', HATCH), 'not known') : null, h('li', {}, markOf('failed'), 'failed')]);
  }
}

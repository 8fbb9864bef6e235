// Elements, tables and numbers as text. Data becomes text nodes, never HTML.

/**
 * Makes an element: h('button.small', {type: 'button', onclick}, 'Copy'). Names with a dash, role, for and scope
 * are attributes, all others are properties. A child may be null.
 */
export function h(name, props = {}, ...children) {
  const [tag, ...classes] = name.split('.');
  const el = document.createElement(tag);
  if (classes.length) el.className = classes.join(' ');
  for (const [key, value] of Object.entries(props)) {
    if (/-|^(role|for|scope)$/.test(key)) el.setAttribute(key, value);
    else el[key] = value;
  }
  el.append(...children.filter((c) => c !== null));
  return el;
}

/** Sets a text only if it differs, so that screen readers keep still. An empty text hides the element. */
export function say(el, text) {
  if (el.textContent !== text) el.textContent = text;
  el.hidden = !text;
}

/** Makes the children again only if their data differs. */
export function redo(el, data, make) {
  const key = JSON.stringify(data);
  if (el.dataKey === key) return;
  el.dataKey = key;
  el.replaceChildren(...[make()].flat().filter((c) => c !== null));
}

/** A table whose cells stay while their text does; without rows it is hidden. Columns are {head, text(row), num?, make?(row)}. */
export class Table {
  #rows = new Map();

  constructor(label, columns) {
    this.columns = columns;
    this.body = h('tbody');
    const heads = columns.map((c) => h(c.num ? 'th.num' : 'th', { scope: 'col' }, c.head));
    this.el = h('section', { hidden: true }, h('h2', {}, label),
      h('div.scroll', { tabIndex: 0, role: 'region', 'aria-label': label },
        h('table', {}, h('thead', {}, h('tr', {}, ...heads)), this.body)),
      this.more = h('p.muted', { hidden: true }));
  }

  /** @param {string} more says which rows are left out; '' if none is */
  update(rows, keyOf, more) {
    this.el.hidden = rows.length === 0;
    say(this.more, more);
    const old = this.#rows;
    this.#rows = new Map(rows.map((row) => {
      const key = keyOf(row);
      const tr = old.get(key) ?? h('tr', {}, ...this.columns.map((c) => h(c.num ? 'td.num' : 'td')));
      this.columns.forEach((c, i) => redo(tr.children[i], c.text(row), () => c.make?.(row) ?? c.text(row)));
      return [key, tr];
    }));
    redo(this.body, [...this.#rows.keys()], () => [...this.#rows.values()]);
  }
}

/** A bar with a part for each value, whose class is its name. */
export function meter(all, parts) {
  return h('span.meter', { 'aria-hidden': 'true' }, ...Object.entries(parts).map(([name, n]) => {
    const part = h(`i.${name}`);
    part.style.width = `${(100 * n) / Math.max(1, all)}%`;
    return part;
  }));
}

/** A command with a button that copies it; without a clipboard the button selects it. */
export function copyable(line) {
  const code = h('code', {}, line);
  const button = h('button.small', { type: 'button', 'aria-label': `Copy: ${line}` }, 'Copy');
  button.onclick = async () => {
    try {
      await navigator.clipboard.writeText(line);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = 'Press Ctrl+C';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  };
  return [code, button];
}

const plain = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const rough = new Intl.NumberFormat('en', { maximumSignificantDigits: 2 });

export const count = (n) => plain.format(n);
/** A value that was rounded on its way: a whole number of two digits. */
export const about = (n) => rough.format(Math.round(n));
export const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : noun.endsWith('sh') ? 'es' : 's'}`;

export function bytes(n) {
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, n)) / 10));
  return `${(n / 1024 ** power).toFixed(power > 0 ? 1 : 0)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`;
}

export function duration(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  const [size, unit] = s < 120 ? [1, 's'] : s < 7200 ? [60, 'min'] : s < 172_800 ? [3600, 'h'] : [86_400, 'd'];
  return `${Math.floor(s / size)} ${unit}`;
}

/** The time since a time; a dash if it is not known. */
export const since = (at) => (Date.parse(at) > 0 ? duration(Date.now() - Date.parse(at)) : '–');

/** A time of today, or the date and time; '' if it is not known. */
export function clock(at) {
  const t = new Date(at);
  if (!(t > 0)) return '';
  if (t.toDateString() === new Date().toDateString()) return t.toLocaleTimeString('en-GB');
  return t.toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
}

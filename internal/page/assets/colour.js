// Colours and marks: of statuses (Okabe–Ito, each with a mark of its own) and of numbers (cividis).

/** Marks in a box of 10 by 10; running has none. The page and the canvas draw the same ones. */
const MARKS = {
  running: '',
  created: 'M4 4h2v2H4z',
  stopping: 'M2.5 5h5',
  stopped: 'M3.5 2.5v5M6.5 2.5v5',
  failed: 'M2 2l6 6M8 2l-6 6',
  degraded: 'M5 2v3.4M5 7v1',
  unknown: 'M2 8l6-6',
};

/** Statuses of meshes, hosts, worlds and events that look like one of a rank. */
const LIKE = {
  starting: 'created', initializing: 'created', silent: 'degraded', alive: 'running', live: 'running', suspect: 'degraded', dead: 'failed', unhealthy: 'failed',
  orphaned: 'degraded', ended: 'stopped', answered: 'running', cordoned: 'stopped',
};

const markName = (status) => LIKE[status] ?? (status in MARKS ? status : 'unknown');

/** A small square with the colour and the mark of a status. The word stands beside it. */
export function markOf(status, colour = `var(--${markName(status)})`) {
  const make = (name) => document.createElementNS('http://www.w3.org/2000/svg', name);
  const [svg, path] = [make('svg'), make('path')];
  svg.setAttribute('viewBox', '0 0 10 10');
  svg.setAttribute('class', 'mark');
  svg.ariaHidden = 'true';
  svg.style.background = colour;
  path.setAttribute('d', MARKS[markName(status)]);
  svg.append(path);
  return svg;
}

/**
 * The pixels of a mark in a cell: 1 is ink. A status without a mark has none.
 * @returns {Uint8Array | null} side × side
 */
export function markMask(status, side) {
  const path = MARKS[markName(status)];
  if (!path) return null;
  const ctx = new OffscreenCanvas(side, side).getContext('2d', { willReadFrequently: true });
  ctx.scale(side / 10, side / 10);
  ctx.lineWidth = Math.max(1.6, 12 / side);
  ctx.stroke(new Path2D(path));
  ctx.fill(new Path2D(path));
  const { data } = ctx.getImageData(0, 0, side, side);
  return Uint8Array.from({ length: side * side }, (_, i) => Number(data[4 * i + 3] > 110));
}

const CIVIDIS = '#00224e #123570 #3b496c #575d6d #707173 #8a8678 #a59c74 #c3b369 #e1cc55 #fee838'.split(' ');

const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const pack = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0; // as ImageData has it
const mix = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));

/**
 * The colours of the page as the canvas needs them; read again when the scheme changes. A fill has
 * dim, its colour beside a selection.
 */
export function readPalette() {
  const css = getComputedStyle(document.documentElement);
  const value = (name) => css.getPropertyValue(`--${name}`).trim();
  const ground = rgb(value('map'));
  const fill = (c) => ({ fill: pack(c), dim: pack(mix(c, ground, 0.72)), css: `rgb(${c.join()})` });
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const stops = (dark ? CIVIDIS : CIVIDIS.toReversed()).map(rgb); // little is close to the ground
  return {
    ground: pack(ground), ink: pack(rgb(value('mark'))),
    text: value('text'), muted: value('muted'), accent: value('accent'),
    status: (name) => fill(rgb(value(markName(name)))),
    zero: fill(rgb(value('zero'))),
    none: fill(ground), hatch: pack(rgb(value('hatch'))),
    ramp: (t) => {
      const at = Math.max(0, Math.min(1, t)) * (stops.length - 1);
      const i = Math.min(stops.length - 2, Math.floor(at));
      return fill(mix(stops[i], stops[i + 1], at - i));
    },
  };
}

/** The byte of a value that is not known. */
export const UNKNOWN = 255;

/** A byte of a column as a value. */
export const valueOf = (byte) => 2 ** (byte / 8) - 1;

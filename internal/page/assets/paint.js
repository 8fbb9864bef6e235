// Draws what is in view of the heat map: cells as pixels, then frames and labels over them.

import { UNKNOWN } from './colour.js';
import { facetAt, firstRow, pointAt, rowsIn, tickStep } from './layout.js';
import { pointText, rankOf, spanHas } from './region.js';

/**
 * view: {width, height, left, top, unit}: its size and scroll position.
 * @typedef {{l: import('./layout.js').Layout, view: object, grid: object, palette: object, region: object[] | null,
 *   statuses: Uint8Array | null, values: Uint8Array, colours: {fill: number, dim: number}[],
 *   marks: (Uint8Array | null | false)[], fixed: (object | false)[], side: number}} Picture
 *   marks and fixed are by status: a mark, and a colour that no value changes
 */

/** The position of the cells of a facet on the canvas. */
function shownAt({ l, view }, f) {
  const at = facetAt(l, f);
  return { left: at.left - view.left, top: at.top - view.top };
}

/** Yields the facets in view with their positions. @param {Picture} p */
function* facetsIn(p) {
  const { l, view } = p;
  for (let f = 0; f < l.facets; f++) {
    const { left, top } = shownAt(p, f);
    const seen = top - l.label < view.height && top + l.facetH > l.top && left < view.width && left + l.facetW > l.left;
    if (!seen) continue;
    yield { left, top, point: pointAt(l, { facet: f, col: 0, row: 0 }), first: firstRow(l, f), rows: rowsIn(l, f) };
  }
}

const isIn = (region, d, i) => !region || d < 0 || spanHas(region[d], i);
const facetIsIn = ({ l, region }, point) => l.facetDims.every((d) => isIn(region, d, point[d]));
const strideOf = (sizes, d) => (d < 0 ? 0 : sizes.slice(d + 1).reduce((n, s) => n * s, 1));

/** Fills the pixels of all cells in view. @param {Picture} p @param {ImageData} image */
export function paintCells(p, image) {
  const { l, view: { width, height }, palette, region } = p;
  const out = new Uint32Array(image.data.buffer);
  out.fill(palette.ground);
  if (!p.statuses) return;
  const [dx, dy] = [strideOf(l.sizes, l.x), strideOf(l.sizes, l.y)];
  for (const { left, top, point, first: firstOfBand, rows } of facetsIn(p)) {
    const base = rankOf(l.sizes, point);
    const inFacet = facetIsIn(p, point);
    const first = (start, low) => Math.max(0, Math.floor((low - start) / l.cell)); // of the columns or rows in view
    const end = (start, size, high) => Math.min(size, Math.ceil((high - start) / l.cell));
    const [firstCol, endCol] = [first(left, l.left), end(left, l.cols, width)];
    const [lineFrom, lineTo] = [Math.max(0, left), Math.min(width, left + l.facetW)];
    for (let row = first(top, l.top); row < end(top, rows, height); row++) {
      const inRow = inFacet && isIn(region, l.y, firstOfBand + row);
      const y = top + row * l.cell;
      const [firstY, endY] = [Math.max(0, y), Math.min(height, y + p.side)];
      const line = firstY * width;
      for (let col = firstCol; col < endCol; col++) {
        const rank = base + row * dy + col * dx;
        const x = left + col * l.cell;
        const fill = colourOf(p, rank)[inRow && isIn(region, l.x, col) ? 'fill' : 'dim'];
        out.fill(fill, line + Math.max(0, x), line + Math.min(width, x + p.side));
      }
      for (let to = firstY + 1; to < endY; to++) out.copyWithin(to * width + lineFrom, line + lineFrom, line + lineTo);
      for (let col = firstCol; col < endCol; col++) {
        const rank = base + row * dy + col * dx;
        const mark = p.marks[p.statuses[rank]];
        if (mark) paintMark(p, out, left + col * l.cell, y, mark);
        else if (isUnknown(p, rank)) paintHatch(p, out, left + col * l.cell, y);
      }
    }
  }
}

const isUnknown = (p, rank) => !p.fixed[p.statuses[rank]] && p.values[rank] === UNKNOWN;

/** Strokes that go on over the cells beside. */
function paintHatch({ view: { width, height }, side, palette: { hatch } }, out, left, top) {
  const [x0, x1] = [Math.max(0, left), Math.min(width, left + side)];
  for (let y = Math.max(0, top); y < Math.min(height, top + side); y++) {
    for (let x = x0 + ((4 - ((x0 + y) % 4)) % 4); x < x1; x += 4) out[y * width + x] = hatch;
  }
}

const colourOf = (p, rank) => p.fixed[p.statuses[rank]] || p.colours[p.values[rank]] || p.palette.zero;

function paintMark({ view: { width, height }, side, palette: { ink } }, out, left, top, mark) {
  for (let i = 0; i < mark.length; i++) {
    const [x, y] = [left + (i % side), top + Math.floor(i / side)];
    if (mark[i] && x >= 0 && x < width && y >= 0 && y < height) out[y * width + x] = ink;
  }
}

/** Outlines a rectangle of cells of a facet. */
function frame(ctx, { l, view: { unit } }, at, [col, cols], [row, rows], colour, width) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = width * unit;
  ctx.strokeRect(at.left + col * l.cell - unit / 2, at.top + row * l.cell - unit / 2, cols * l.cell, rows * l.cell);
}

/** Outlines one place. @param {Picture} p */
export function paintPlace(ctx, p, { facet, col, row }, width) {
  frame(ctx, p, shownAt(p, facet), [col, 1], [row, 1], p.palette.text, width);
}

/** Outlines the selection. @param {Picture} p */
export function paintRegion(ctx, p) {
  const { l, region, palette } = p;
  const extent = (d, first, size) => { // the part from a first index on
    if (d < 0) return [0, 1];
    const [begin, end] = [Math.max(region[d].begin, first), Math.min(region[d].end, first + size)];
    return [begin - first, end - begin];
  };
  for (const at of facetsIn(p)) {
    const [cols, rows] = [extent(l.x, 0, l.cols), extent(l.y, at.first, at.rows)];
    if (facetIsIn(p, at.point) && rows[1] > 0) frame(ctx, p, at, cols, rows, palette.accent, 2);
  }
}

/** Names of facets, and of rows and columns, which stay in view. @param {Picture} p */
export function paintLabels(ctx, p) {
  const { l, view: { width, height, unit }, palette, grid } = p;
  const facets = [...facetsIn(p)];
  const write = (text, x, y, align, colour = palette.muted) => {
    ctx.textAlign = align;
    ctx.fillStyle = colour;
    ctx.fillText(text, x, y);
  };
  ctx.textBaseline = 'middle';
  const names = { labels: l.facetDims.map((d) => grid.labels[d]) };
  for (const { left, top, point, first } of l.label ? facets : []) {
    const name = pointText(names, l.facetDims.map((d) => point[d]));
    const band = l.bands > 1 ? `${first}` : '';
    write([name, band].filter(Boolean).join(' · '), left, top - l.label / 2, 'left', palette.text);
  }
  ctx.clearRect(0, 0, width, l.top);
  ctx.clearRect(0, 0, l.left, height);
  const stepX = tickStep(l.cell, ctx.measureText(`${l.cols} `).width + 4 * unit);
  const stepY = tickStep(l.cell, 13 * unit);
  for (const left of new Set(l.x < 0 ? [] : facets.map((f) => f.left))) {
    for (let i = 0; i < l.cols; i += stepX) {
      const x = left + (i + 0.5) * l.cell;
      if (x > l.left && x < width) write(i, x, l.top - 8 * unit, 'center');
    }
  }
  for (const top of new Set(l.y < 0 || l.bands > 1 ? [] : facets.map((f) => f.top))) {
    for (let i = 0; i < l.rows; i += stepY) {
      const y = top + (i + 0.5) * l.cell;
      if (y > l.top && y < height) write(i, l.left - 5 * unit, y, 'right');
    }
  }
  if (l.x >= 0) write(`${grid.labels[l.x]} →`, l.left, 9 * unit, 'left', palette.text);
  if (l.y >= 0) write(`${grid.labels[l.y]} ↓`, l.left - 5 * unit, l.top - 8 * unit, 'right', palette.text);
}

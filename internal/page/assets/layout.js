// The geometry of the heat map, in device pixels. Pure functions.

/**
 * Dimensions x and y are the axes (-1: none). Each combination of the others is a facet, or several side by side if
 * it has too many rows: bands. A place is {facet, col, row}.
 * @typedef {{x: number, y: number, cols: number, rows: number, facets: number, facetDims: number[], allRows: number,
 *   bands: number, perRow: number, cell: number, pitch: number, gap: number, facetW: number, facetH: number, top: number,
 *   left: number, label: number, width: number, height: number, sizes: number[]}} Layout
 */

/**
 * Chooses the largest cells with which all facets fit into the view, first with whole facets and then with bands.
 * If none do, it takes the smallest cells, in bands as high as the view. If these do not fit beside each other, it
 * takes the largest cells below 10 units with which a facet fits in width, or else the smallest ones.
 * @param {{sizes: number[], x: number, y: number, width: number, height: number, left: number, name: number,
 *   bandName: number, unit: number}} o
 *   left is the width of the labels of rows, name that of a facet, bandName that of a band, unit the device pixels of
 *   a CSS pixel.
 * @returns {Layout}
 */
export function layoutOf({ sizes, x, y, width, height, left, name, bandName, unit }) {
  const facetDims = sizes.map((_, d) => d).filter((d) => d !== x && d !== y);
  const combinations = facetDims.reduce((n, d) => n * sizes[d], 1);
  const [cols, allRows] = [sizes[x] ?? 1, sizes[y] ?? 1];
  const px = (n) => Math.round(n * unit);
  const [top, gap, edge] = [px(34), px(14), px(6)];
  const withCell = (cell, rows = allRows) => {
    const bands = Math.ceil(allRows / rows);
    const facets = combinations * bands;
    const label = facets > 1 ? px(18) : 0;
    const [facetW, facetH] = [cols * cell, rows * cell];
    const pitch = Math.max(facetW, bands > 1 ? Math.max(name, bandName) : name) + gap;
    const perRow = Math.max(1, Math.min(facets, Math.floor((width - left - edge + gap) / pitch)));
    return {
      x, y, sizes, cols, rows, allRows, bands, facets, facetDims, cell, pitch, gap, facetW, facetH, top, left, label,
      perRow,
      width: left + edge + perRow * pitch - gap,
      height: top + edge + Math.ceil(facets / perRow) * (label + facetH + gap) - gap,
    };
  };
  const [least, most, enough] = [px(4), px(30), px(10)];
  const cells = Array.from({ length: most - least + 1 }, (_, i) => most - i);
  const all = cells.map((cell) => withCell(cell));
  const room = height - top - edge - px(18);
  const inBands = cells.map((cell) => withCell(cell, bandRows(Math.floor(room / cell), allRows)));
  const fits = (l) => l.width <= width && l.height <= height;
  return all.find(fits) ?? inBands.find(fits) ?? inBands.slice(-1).find((l) => l.perRow > 1 && l.bands > 1)
    ?? all.find((l) => l.width <= width && l.cell <= enough) ?? all.at(-1);
}

/** The rows of a band of at most a number of rows: of many, a round number. */
const bandRows = (most, allRows) => Math.max(1, Math.min(allRows, most > 20 ? most - (most % 10) : most));

/** The first row of a facet. @param {Layout} l */
export const firstRow = (l, facet) => (facet % l.bands) * l.rows;

/** The number of rows of a facet: the last band may have fewer. @param {Layout} l */
export const rowsIn = (l, facet) => Math.min(l.rows, l.allRows - firstRow(l, facet));

/** The upper left corner of the cells of a facet. @param {Layout} l */
export const facetAt = (l, f) => ({
  left: l.left + (f % l.perRow) * l.pitch,
  top: l.top + Math.floor(f / l.perRow) * (l.label + l.facetH + l.gap) + l.label,
});

/** The point of a place. @param {Layout} l @returns {number[]} */
export function pointAt(l, { facet, col, row }) {
  const point = [];
  const first = firstRow(l, facet);
  facet = Math.floor(facet / l.bands);
  for (const d of l.facetDims.toReversed()) {
    point[d] = facet % l.sizes[d];
    facet = Math.floor(facet / l.sizes[d]);
  }
  if (l.x >= 0) point[l.x] = col;
  if (l.y >= 0) point[l.y] = first + row;
  return point;
}

/** The place of a point. @param {Layout} l */
export function placeOf(l, point) {
  const facet = l.facetDims.reduce((f, d) => f * l.sizes[d] + point[d], 0);
  const row = point[l.y] ?? 0;
  return { facet: facet * l.bands + Math.floor(row / l.rows), col: point[l.x] ?? 0, row: row % l.rows };
}

const clamp = (i, size) => Math.max(0, Math.min(size - 1, i));

/** The place at a position, or null between the facets. With a facet given, the nearest one in it. @param {Layout} l */
export function placeAt(l, px, py, within = -1) {
  const across = Math.floor((px - l.left) / l.pitch);
  const down = Math.floor((py - l.top) / (l.label + l.facetH + l.gap));
  const facet = within >= 0 ? within : down * l.perRow + across;
  if (within < 0 && (across < 0 || across >= l.perRow || down < 0 || facet >= l.facets)) return null;
  const at = facetAt(l, facet);
  const [i, j] = [Math.floor((px - at.left) / l.cell), Math.floor((py - at.top) / l.cell)];
  const [col, row] = [clamp(i, l.cols), clamp(j, rowsIn(l, facet))];
  return within < 0 && (i !== col || j !== row) ? null : { facet, col, row };
}

/** The place one step away; over the edge of a facet it is in the next one. @param {Layout} l */
export function stepFrom(l, { facet, col, row }, dx, dy) {
  const [i, j, across] = [col + dx, row + dy, facet % l.perRow];
  const rows = rowsIn(l, facet);
  const inFirst = firstRow(l, facet) === 0;
  const inLast = firstRow(l, facet) + rows === l.allRows;
  if (j < 0 && !inFirst) return { facet: facet - 1, col, row: l.rows - 1 };
  if (j >= rows && !inLast) return { facet: facet + 1, col, row: 0 };
  const next = facet + (i < 0 ? -1 : i >= l.cols ? 1 : 0) + l.perRow * (j < 0 ? -1 : j >= rows ? 1 : 0);
  const leaves = next !== facet;
  if (!leaves) return { facet, col: i, row: j };
  const isThere = next >= 0 && next < l.facets && (dx === 0 || (across + dx >= 0 && across + dx < l.perRow));
  if (!isThere) return { facet, col, row };
  const last = rowsIn(l, next) - 1;
  return { facet: next, col: (i + l.cols) % l.cols, row: j < 0 ? last : j >= rows ? 0 : Math.min(j, last) };
}

/** The distance of labelled indices: the lowest power of two with enough room for a label. */
export const tickStep = (cell, room) => 2 ** Math.max(0, Math.ceil(Math.log2(room / cell)));

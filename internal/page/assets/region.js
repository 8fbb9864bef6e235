// Regions: their grammar, their text and the ranks in them. Pure functions.

/**
 * A grid is {labels, sizes} of a mesh. A region has one span for each dimension: the indices
 * begin, begin+step, … below end.
 * @typedef {{labels: string[], sizes: number[]}} Grid
 * @typedef {{begin: number, end: number, step: number}} Span
 * @typedef {Span[]} Region
 */

/** The region of one point. @param {number[]} point */
export const pointRegion = (point) => point.map((i) => ({ begin: i, end: i + 1, step: 1 }));

/** @param {Span} s */
export const spanCount = (s) => Math.ceil((s.end - s.begin) / s.step);

/** @param {Region} region */
export const rankCount = (region) => region.reduce((n, s) => n * spanCount(s), 1);

/** @param {Span} s */
export const spanHas = (s, i) => i >= s.begin && i < s.end && (i - s.begin) % s.step === 0;

/** Ranks are row-major: the last dimension runs fastest. */
export const rankOf = (sizes, point) => sizes.reduce((rank, size, d) => rank * size + point[d], 0);

/** @returns {number[]} */
export function pointOf(sizes, rank) {
  const point = new Array(sizes.length);
  for (let d = sizes.length - 1; d >= 0; d--) {
    point[d] = rank % sizes[d];
    rank = Math.floor(rank / sizes[d]);
  }
  return point;
}

/** Yields the ranks of a region in order. @param {Region} region */
export function* ranksOf(sizes, region, d = 0, base = 0) {
  if (d === sizes.length) {
    yield base;
    return;
  }
  const { begin, end, step } = region[d];
  for (let i = begin; i < end; i += step) yield* ranksOf(sizes, region, d + 1, base * sizes[d] + i);
}

/** The point as text: `host=0,gpu=3`. */
export const pointText = (grid, point) => grid.labels.map((l, d) => `${l}=${point[d]}`).join(',');

/** The shortest text that parseRegion reads back; '' is the whole mesh. @param {Region} region */
export function regionText(grid, region) {
  const parts = [];
  region.forEach(({ begin, end, step }, d) => {
    const label = grid.labels[d];
    if (begin === 0 && end === grid.sizes[d] && step === 1) return;
    if (spanCount(region[d]) === 1) parts.push(`${label}=${begin}`);
    else parts.push(`${label}=${begin}:${end}${step > 1 ? `:${step}` : ''}`);
  });
  return parts.join(',');
}

/**
 * Reads one region as the commands read it: `host=0:2,gpu=3`, `gpu=::2`, `1,0:2`, `*`.
 * An error names what was wrong and what was expected.
 * @param {Grid} grid @param {string} text @returns {Region}
 */
export function parseRegion(grid, text) {
  const fail = (cause) => new Error(`cannot read region "${text.trim()}": ${cause}`);
  const region = grid.sizes.map((size) => ({ begin: 0, end: size, step: 1 }));
  if (['', '*'].includes(text.trim())) return region;
  if (/[|&()]/.test(text)) throw fail('want one region here, without | & ( ); the commands also take unions');
  const named = [];
  for (const part of text.split(',')) {
    const [, label, spec] = /^\s*(?:([\w-]+)\s*=)?\s*(.*?)\s*$/.exec(part);
    const d = label === undefined ? (named.at(-1) ?? -1) + 1 : grid.labels.indexOf(label);
    if (d < 0) throw fail(`there is no dimension ${label}; want one of ${grid.labels.join(', ')}`);
    if (d >= grid.sizes.length) throw fail(`want at most ${grid.sizes.length} parts: ${grid.labels.join(', ')}`);
    if (named.includes(d)) throw fail(`want ${grid.labels[d]} once`);
    named.push(d);
    region[d] = parseSpan(spec, grid.labels[d], grid.sizes[d], fail);
  }
  return region;
}

/** @returns {Span} */
function parseSpan(spec, label, size, fail) {
  if (spec === '*') return { begin: 0, end: size, step: 1 };
  const m = /^(\d*)\s*(?:(:)\s*(\d*)\s*(?::\s*0*([1-9]\d*))?)?$/.exec(spec);
  if (!m || spec === '') throw fail(`want an index, a range a:b or a:b:step, or * for ${label}`);
  const begin = m[1] === '' ? 0 : Number(m[1]);
  const end = m[2] ? Math.min(m[3] ? Number(m[3]) : size, size) : begin + 1;
  const step = m[4] ? Number(m[4]) : 1;
  if (begin >= size) throw fail(`${label} has the indices 0 to ${size - 1}`);
  if (end <= begin) throw fail(`want an end of ${label} after its begin`);
  return { begin, end, step };
}

/**
 * The commands for a region, as people type them.
 * @param {{mesh: string, world: boolean, region: string, actor: string, endpoint: string, body: string}} c
 * @returns {{verb: string, title: string, line: string, ask?: boolean}[]} ask: it ends procs, so people confirm it
 */
export function commandsFor({ mesh, world, region, actor, endpoint, body }) {
  const t = region ? `'${mesh}[${region}]'` : mesh;
  const word = (s) => (/^[\w.-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`);
  const json = body ? ` '${body.replaceAll("'", `'\\''`)}'` : '';
  const all = [
    { verb: 'cast', title: 'Cast', line: `castnet cast ${t} ${word(actor || 'ACTOR')} ${word(endpoint || 'ENDPOINT')}${json}` },
    { verb: 'logs', title: 'Follow output', line: `castnet logs -f ${t}` },
    { verb: 'stack', title: 'Stacks', line: `castnet stack ${t}` },
    { verb: 'restart', title: 'Restart', line: `castnet mesh restart ${t}`, ask: true },
    { verb: 'stop', title: 'Stop the whole mesh', line: `castnet stop ${mesh}`, ask: true },
  ];
  return world ? all.filter((c) => c.verb !== 'restart') : all;
}

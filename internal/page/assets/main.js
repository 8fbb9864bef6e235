// The page: where it is (hash routes), whether its data is fresh, and the token.

import { get, takeToken } from './api.js';
import { markOf } from './colour.js';
import { duration, h, redo, say } from './dom.js';
import { MeshView } from './mesh.js';
import { Overview } from './overview.js';

const id = (name) => document.getElementById(name);
let view = null;
let conn = { kind: 'connecting' };
let sampledAt = 0;

/** What views use of the page. */
const app = {
  /** @type {{host: string, version: string, act: boolean}} */
  info: { act: false },

  /** Names the view in the title and in the bar. */
  place(title, crumb = '') {
    document.title = `${title} · castnet`;
    redo(id('crumbs'), crumb, () => (crumb ? [h('a', { href: '#/' }, 'Overview'), ' / ', h('b', {}, crumb)] : []));
  },

  /** @param {import('./api.js').StreamState} state of the main stream of the view */
  connection(state) {
    if (state.kind === 'denied') return showDenied();
    if (state.kind === 'connecting' && conn.kind === 'lost') return; // the banner stays until data comes
    if (state.kind === 'live' && !state.cause) sampledAt = Date.now(); // the clock of the data may differ from ours
    conn = state;
    tick();
  },
};

/** The word about how fresh the data is, and the status that it looks like. */
function freshness() {
  const age = Date.now() - sampledAt;
  const still = { ended: 'Ended', gone: 'Not found', paused: 'Paused' }[conn.kind];
  if (still) return [still, 'stopped'];
  if (sampledAt && (conn.cause || age > 5000)) return [`Data of ${duration(age)} ago`, 'degraded'];
  if (conn.cause) return ['Disconnected', 'failed'];
  return sampledAt ? ['Live', 'running'] : ['Connecting…', 'created'];
}

function tick() {
  const [word, status] = freshness();
  redo(id('live'), word, () => [markOf(status), word]);
  document.body.classList.toggle('old', status === 'degraded');
  say(id('banner'), trouble());
}

/** Why the data is old, if the page or its server cannot ask. */
function trouble() {
  const { kind, cause } = conn;
  if (kind === 'live' && cause) return `Cannot ask the castnet: ${cause}. The page asks again by itself.`;
  if (kind !== 'lost') return '';
  return `Cannot read the state: ${cause}. The page tries again by itself. `
    + 'If this stays, check that hostd, or castnet ui, still runs.';
}

function route() {
  if (takeToken()) return boot();
  const m = /^#\/mesh\/([^/]+)(?:\/rank\/(\d+))?$/.exec(location.hash);
  const mesh = m && decodeURIComponent(m[1]);
  const rank = m?.[2] && Number(m[2]);
  if (mesh && view?.id === mesh) return view.route(rank);
  const moved = view !== null;
  leave();
  view = mesh ? new MeshView(app, mesh, rank) : new Overview(app);
  id('main').replaceChildren(view.el);
  if (!moved) return;
  id('main').focus({ preventScroll: true });
  scrollTo(0, 0);
}

function leave() {
  view?.close();
  view = null;
  sampledAt = 0;
  conn = { kind: 'connecting' };
  tick();
}

function showDenied() {
  leave();
  app.place('Not signed in');
  redo(id('live'), 'denied', () => [markOf('failed'), 'Not signed in']);
  id('main').replaceChildren(h('section.empty', {}, h('h1', {}, 'The token is missing or wrong'),
    h('p', {}, 'Open the address that hostd or ', h('code', {}, 'castnet ui'),
      ' printed: it ends with #token=…, and each start has a new one.')));
}

async function boot() {
  try {
    app.info = await get('/api/page');
  } catch (e) {
    if (e.status === 401) return showDenied();
    app.connection({ kind: 'lost', cause: e.message });
    setTimeout(boot, 3000);
    return;
  }
  const { host, version, act } = app.info;
  const facts = [`castnet ${version}`, host && `on ${host}`, !act && 'read only'];
  say(id('about'), facts.filter(Boolean).join(' · '));
  leave();
  route();
}

id('skip').onclick = () => id('main').focus();
addEventListener('hashchange', () => { if (view || location.hash.startsWith('#token=')) route(); });
setInterval(() => { if (view && !document.hidden) tick(); }, 1000);
takeToken();
tick();
boot();

// Requests and streams of the server. The token stays in the storage of this tab.

const KEY = 'castnet-token';
const SILENCE = 15_000; // a stream without a line, and so without a keepalive
const HIDDEN = 10_000; // then nobody looks, and streams close

/** Takes the token out of a fragment such as #token=abc or #token=abc&/mesh/ID, and out of the address bar. */
export function takeToken() {
  const m = /^#token=([^&]*)&?(.*)$/.exec(location.hash);
  if (!m) return false;
  sessionStorage.setItem(KEY, decodeURIComponent(m[1]));
  history.replaceState(null, '', `${location.pathname}#${m[2] || '/'}`);
  return true;
}

/** @throws {Error} with the status of a refusal, or 0 without an answer */
async function request(path, options) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ''}` };
  const response = await fetch(path, { cache: 'no-store', headers, ...options }).catch(() => null);
  if (response?.ok) return response;
  const { status = 0, statusText } = response ?? {};
  const refusal = await response?.json().catch(() => ({ error: `${status} ${statusText}` }));
  throw Object.assign(new Error(refusal?.error ?? `${location.host} does not answer`), { status });
}

/** GET of one JSON document. */
export const get = async (path, signal) => (await request(path, { signal })).json();

/** Runs an order of /api/act. @returns {Promise<string>} its output */
export async function act(order) {
  const response = await request('/api/act', { method: 'POST', body: JSON.stringify(order) });
  const { output = '', error } = await response.json();
  if (error) throw new Error(error);
  return output;
}

/** Yields the lines of a body. */
async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = []; // of the line that has not ended
  for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
    const pieces = chunk.value.split('\n');
    for (const piece of pieces.slice(0, -1)) {
      yield parts.join('') + piece;
      parts = [];
    }
    parts.push(pieces.at(-1));
  }
}

const streams = new Set();
const pauseAll = () => streams.forEach((s) => s.pause());
const resumeAll = () => streams.forEach((s) => s.resume());
let sleep = 0;
document.addEventListener('visibilitychange', () => {
  clearTimeout(sleep);
  if (document.hidden) sleep = setTimeout(pauseAll, HIDDEN);
  else resumeAll();
});
addEventListener('pagehide', pauseAll); // a page kept for the back button would hold its connections
addEventListener('pageshow', resumeAll);

/**
 * connecting; live: data has come; lost: it opens again; denied: 401; gone: 404; ended: by the server; paused:
 * the page is hidden. lost, gone and ended have a cause, and live if the server could not ask and the data is old.
 * @typedef {{kind: string, cause?: string}} StreamState
 */

/** An endless body of JSON lines, opened again after a failure, and closed while the page is hidden. */
export class Stream {
  #stop = null; // an AbortController while it is open
  #timer = 0;
  #pause = 1000;

  /**
   * @param {string} path
   * @param {(line: object) => void} onLine neither keepalives nor the end
   * @param {(state: StreamState) => void} onState
   */
  constructor(path, onLine, onState = () => {}) {
    Object.assign(this, { path, onLine, onState });
    streams.add(this);
    this.resume();
  }

  close() {
    streams.delete(this);
    this.#halt();
  }

  pause() {
    this.#halt();
    this.onState({ kind: 'paused' });
  }

  /** Reads another path from now on. The request before ends when data comes, so that the server goes on asking. */
  move(path) {
    if (path === this.path) return;
    this.path = path;
    if (!this.#stop) return; // paused
    clearTimeout(this.#timer);
    this.#open(this.#stop);
  }

  resume() { if (!this.#stop && streams.has(this)) this.#open(); }

  #halt() {
    clearTimeout(this.#timer);
    this.#stop?.abort();
    this.#stop = null;
  }

  async #open(former) {
    const stop = (this.#stop = new AbortController());
    this.onState({ kind: 'connecting' });
    const end = await this.#read(stop, former);
    former?.abort();
    stop.abort();
    if (this.#stop !== stop) return; // closed or paused
    if (end.kind !== 'lost') this.close();
    else this.#timer = setTimeout(() => this.#open(), this.#pause);
    this.#pause = Math.min(10_000, this.#pause * 2);
    this.onState(end);
  }

  /** Reads until the end. @returns {Promise<StreamState>} why it ended */
  async #read(stop, former) {
    let lines = 0;
    let heard = Date.now();
    const watch = setInterval(() => { if (Date.now() - heard > SILENCE) stop.abort('silence'); }, 1000);
    try {
      const { body } = await request(this.path, { signal: stop.signal });
      for await (const text of linesOf(body)) {
        heard = Date.now();
        this.#pause = 1000;
        if (++lines === 2) former?.abort(); // behind the header
        const line = JSON.parse(text || '{}');
        if (line.ended !== undefined) return { kind: 'ended', cause: line.ended };
        if (this.#stop !== stop || Object.keys(line).length === 0) continue; // closed by a line before; a keepalive
        if (!('event' in line)) this.onState({ kind: 'live', cause: line.error });
        this.onLine(line);
      }
      return { kind: 'lost', cause: 'the stream ended' };
    } catch (e) {
      if (stop.signal.reason === 'silence') return { kind: 'lost', cause: `nothing came for ${SILENCE / 1000} s` };
      if (e.status === undefined && !stop.signal.aborted) console.error(e); // or a mistake in what shows the line
      const cause = e.status === undefined ? 'the connection broke' : e.message;
      return { kind: { 401: 'denied', 404: 'gone' }[e.status] ?? 'lost', cause };
    } finally {
      clearInterval(watch);
    }
  }
}

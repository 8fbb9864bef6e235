// castnet's subjects and bodies for JavaScript: what goes between the dots, what a token may be, and how a
// value is written. See spec/vectors.json.

import { headers as natsHeaders } from "@nats-io/transport-node";
import { Encoder } from "cbor-x";

const label = "[A-Za-z0-9][A-Za-z0-9_-]{0,31}";
const unique = `${label}-[0-9a-z]{13}`;
const number = "(?:0|[1-9][0-9]{0,9})";
const rules = {
  label,
  name: `(?:${label}|${unique})`,
  port: `(?:${label}|_[0-9a-z]{1,31})`,
  where: `(?:_|${number})(?:-(?:_|${number})){0,3}`,
  sender: `[hpsguowc]-${label}\\.(?:${label}|${unique}_${number}-${number})`,
};

// valid reports whether a token keeps its rule. Numbers have at most 32 bits.
export function valid(rule, text) {
  if (!new RegExp(`^(?:${rules[rule]})$`).test(text)) return false;
  return rule !== "where" || text.split("-").every((c) => c === "_" || Number(c) < 2 ** 32);
}

const rank = (p) => ("rank" in p ? [p.rank, p.gen, ...(p.index ? [p.index] : [])].join("-") : "_");

const forms = {
  p: (p) => [p.mesh, rank(p), p.actor, p.port, p.sender],
  k: (p) => [p.mesh, p.actor, p.port, p.where, p.sender],
  f: (p) => [p.mesh, rank(p), p.sender],
  c: (p) => [p.mesh, rank(p), p.sender],
  n: (p) => [p.mesh, rank(p), p.link],
  hr: (p) => [p.host, p.verb, p.sender],
  hw: (p) => [p.host, p.verb, p.sender],
  hv: (p) => [p.mesh, rank(p), p.sender],
  cast: (p) => [p.meshname, p.actor, p.endpoint, p.sender],
  hb: (p) => [p.kind, p.sender],
  ev: (p) => [p.kind, p.mesh ?? "_", rank(p), p.actor ?? "_", p.sender],
  log: (p) => [p.mesh, rank(p), p.stream, p.sender],
  r: (p) => [p.sender, p.token],
};

export function subject(kind, parts, space = "castnet.v1.default") {
  return [space, kind, ...forms[kind](parts)].join(".");
}

// point is the coordinates of a rank: the last dimension runs fastest.
export function point(extent, rank) {
  const out = [];
  for (const dimension of extent.split(",").reverse()) {
    const [label, size] = dimension.split("=");
    out.unshift(`${label}=${rank % size}`);
    rank = Math.floor(rank / size);
  }
  return out.join(",");
}

// Plain maps and no tags: castnet refuses those. Whole numbers beyond 32 bits must be a BigInt to be
// written as integers.
const cbor = new Encoder({ useRecords: false, tagUint8Array: false });

export const formats = {
  "application/json": {
    encode: (v) => new TextEncoder().encode(JSON.stringify(v)),
    decode: (data) => JSON.parse(new TextDecoder().decode(data)),
  },
  "application/cbor": {
    encode: (v) => cbor.encode(v),
    decode: (data) => cbor.decode(data),
  },
};

// headersOf makes headers of pairs.
export function headersOf(pairs) {
  const h = natsHeaders();
  for (const [key, value] of pairs) h.append(key, value);
  return h;
}

// What spec/vectors.json says, without a mesh.

import assert from "node:assert/strict";
import { test } from "node:test";

import { formats, point, subject, valid } from "./castnet.js";
import { vectors } from "./vectors.js";

const { encode, decode } = formats["application/cbor"];
const unhex = (text) => Buffer.from(text, "hex");

// plain is a decoded value as the vectors write it.
function plain(value) {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  }
  return value;
}

test("subjects are built", () => {
  for (const v of vectors.subjects) assert.equal(subject(v.kind, v.parts, v.space), v.subject);
});

test("tokens keep their rules", () => {
  for (const v of vectors.tokens) assert.equal(valid(v.rule, v.text), v.valid, JSON.stringify(v));
});

test("points are ranks", () => {
  for (const v of vectors.points) assert.equal(point(v.extent, v.rank), v.point);
});

test("values are the same in both formats", () => {
  for (const v of vectors.values) {
    assert.deepEqual(plain(decode(unhex(v.cbor))), v.json);
    assert.deepEqual(plain(decode(encode(v.json))), v.json);
  }
});

test("CBOR in packets is read", () => {
  for (const v of vectors.packets) {
    for (const body of v.cbor ?? []) assert.deepEqual(plain(decode(unhex(body.hex))), body.value, v.name);
  }
});

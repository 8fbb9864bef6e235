// Casts to a live mesh: four counters, host=2,gpu=2, named demo; and four echoes, named parrots.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { connect, createInbox } from "@nats-io/transport-node";

import { formats, headersOf, subject } from "./castnet.js";
import { vectors } from "./vectors.js";

const timeout = 30_000;
const tooMuch = 2n ** 63n - 1n;
let nats;

before(async () => {
  nats = await connect({ servers: process.env.NATS_URL, token: process.env.NATS_TOKEN, timeout });
});
after(() => nats.close());
beforeEach(() => gather("application/json", "reset"));

const gateway = (endpoint, meshname = "demo", actor = "counter") =>
  subject("cast", { meshname, actor, endpoint, sender: "u-anon.x" });

// body writes a value; a BigInt is a number in JSON, too.
function body(format, value) {
  if (value === undefined) return "";
  return format === "application/json" && typeof value === "bigint" ? String(value) : formats[format].encode(value);
}

// ask returns the one reply, and its value.
async function ask(format, endpoint, value, headers = {}) {
  const h = headersOf(Object.entries({ "Content-Type": format, ...headers }));
  const reply = await nats.request(gateway(endpoint), body(format, value), { headers: h, timeout });
  assert.equal(reply.headers.get("Content-Type"), format);
  return [reply, reply.data.length > 0 ? formats[format].decode(reply.data) : undefined];
}

async function gather(format, endpoint, value, region = "") {
  const [reply, values] = await ask(format, endpoint, value, { "Castnet-Region": region });
  assertNoError(reply);
  return values;
}

// stream returns the answers, and the empty message behind them.
async function stream(format, endpoint, value, headers = {}) {
  const h = headersOf(Object.entries({ "Content-Type": format, "Castnet-Collect": "stream", ...headers }));
  const options = { strategy: "sentinel", maxWait: timeout, headers: h };
  const answers = [];
  for await (const m of await nats.requestMany(gateway(endpoint), body(format, value), options)) answers.push(m);
  const end = answers.pop();
  assert.equal(end.data.length, 0);
  return [answers, end];
}

function assertNoError(reply) {
  assert.equal(reply.headers.get("Nats-Service-Error"), "");
}

function assertCovers(reply, asked, failed = 0, region = "") {
  const got = ["Asked", "Answered", "Failed", "Missing"].map((k) => reply.headers.get(`Castnet-${k}`));
  assert.deepEqual(got, [asked, asked - failed, failed, 0].map(String));
  assert.equal(reply.headers.get("Castnet-Failed-Region"), region);
}

const sum = (values) => values.reduce((a, b) => a + b);

for (const format of Object.keys(formats)) {
  const { decode } = formats[format];

  test(`a reducer folds all answers into one (${format})`, async () => {
    const [reply, total] = await ask(format, "add", 5, { "Castnet-Reduce": "sum" });
    assert.equal(total, 20);
    assertCovers(reply, 4);
  });

  test(`gather has an answer of each rank in order (${format})`, async () => {
    await gather(format, "add", 7, "host=1");
    const [reply, values] = await ask(format, "get");
    assert.deepEqual(values, [0, 0, 7, 7]);
    assertCovers(reply, 4);
    assert.deepEqual(await gather(format, "get", undefined, "gpu=1"), [0, 7]);
  });

  test(`stream has a message of each rank and ends with an empty one (${format})`, async () => {
    const [answers, end] = await stream(format, "add", 3, { "Castnet-Region": "host=0" });
    const got = answers.map((m) => [m.headers.get("Castnet-Rank"), m.headers.get("Castnet-Point"), decode(m.data)]);
    assert.deepEqual(got.sort(), [["0", "host=0,gpu=0", 3], ["1", "host=0,gpu=1", 3]]);
    assertCovers(end, 2);
  });

  test(`choose is answered by one rank (${format})`, async () => {
    const [reply, value] = await ask(format, "add", 9, { "Castnet-Collect": "choose", "Castnet-Region": "gpu=1" });
    assert.equal(value, 9);
    const at = `${reply.headers.get("Castnet-Rank")} ${reply.headers.get("Castnet-Point")}`;
    assert.ok(["1 host=0,gpu=1", "3 host=1,gpu=1"].includes(at), at);
    assert.equal(sum(await gather(format, "get")), 9);
  });

  test(`send is answered when it is sent (${format})`, async () => {
    const [reply, value] = await ask(format, "add", 2, { "Castnet-Collect": "send" });
    assertNoError(reply);
    assert.equal(value, undefined);
    assert.deepEqual(await gather(format, "get"), [2, 2, 2, 2]); // casts of one gateway keep their order
  });

  test(`some answers come with what is missing (${format})`, async () => {
    await gather(format, "add", tooMuch, "gpu=0");
    const [reply, values] = await ask(format, "add", 1);
    assert.deepEqual(values, [null, 1, null, 1]);
    assertNoError(reply);
    assert.match(reply.headers.get("Castnet-Partial"), /does not fit in 64 bits/);
    assertCovers(reply, 4, 2, "host=*,gpu=0");
    const [folded, total] = await ask(format, "add", 1, { "Castnet-Reduce": "sum" });
    assert.equal(total, 4);
    assertCovers(folded, 4, 2, "host=*,gpu=0");
  });

  test(`a stream has the errors in it (${format})`, async () => {
    await gather(format, "add", tooMuch, "gpu=0");
    const [answers, end] = await stream(format, "add", 1);
    const failed = answers.filter((m) => m.headers.get("Nats-Service-Error"));
    assert.deepEqual(failed.map((m) => m.headers.get("Castnet-Point")).sort(), ["host=0,gpu=0", "host=1,gpu=0"]);
    for (const m of failed) {
      assert.equal(m.headers.get("Nats-Service-Error-Code"), "500");
      assert.match(decode(m.data).error, /does not fit in 64 bits/);
    }
    assert.deepEqual(answers.filter((m) => !failed.includes(m)).map((m) => decode(m.data)), [1, 1]);
    assertCovers(end, 4, 2, "host=*,gpu=0");
  });

  test(`a stream that is refused ends, too (${format})`, async () => {
    const [answers, end] = await stream(format, "add", 1, { "Castnet-Region": "host=9" });
    assert.deepEqual(answers.map((m) => [m.headers.get("Nats-Service-Error-Code"), m.headers.get("Castnet-Point")]), [["400", ""]]);
    assertCovers(end, 0);
  });

  test(`no answer at all is an error (${format})`, async () => {
    await gather(format, "add", tooMuch);
    const [reply, said] = await ask(format, "add", 1);
    assert.equal(reply.headers.get("Nats-Service-Error-Code"), "500");
    assert.match(said.error, /does not fit in 64 bits/);
    assertCovers(reply, 4, 4, "*");
  });

  test(`each rank answers a raw cast for itself (${format})`, async () => {
    const parts = { mesh: process.env.CASTNET_MESH, actor: process.env.CASTNET_ACTOR, port: "add", where: "_-1", sender: "u-anon.x" };
    const inbox = createInbox();
    const answers = nats.subscribe(inbox, { max: 2, timeout });
    nats.publish(subject("k", parts), body(format, 6), { reply: inbox, headers: headersOf([["Content-Type", format]]) });
    const got = [];
    for await (const m of answers) got.push([m.headers.get("Castnet-Rank"), decode(m.data)]);
    assert.deepEqual(got.sort(), [["1", 6], ["3", 6]]);
  });

  test(`values come back as they were sent (${format})`, async () => {
    for (const v of vectors.values) {
      const headers = headersOf([["Content-Type", format], ["Castnet-Collect", "choose"]]);
      const reply = await nats.request(gateway("echo", "parrots", "echo"), formats[format].encode(v.json), { headers, timeout });
      assertNoError(reply);
      const value = decode(reply.data);
      assert.deepEqual(typeof value === "bigint" ? Number(value) : value, v.json);
    }
  });
}

for (const v of vectors.requests) {
  test(`the vectors: ${v.name}`, async () => {
    const headers = headersOf(v.headers);
    const reply = await nats.request(gateway(v.endpoint, v.meshname, v.actor), Buffer.from(v.body, "hex"), { headers, timeout });
    const want = v.reply;
    assert.equal(reply.headers.get("Content-Type"), want.format);
    const value = formats[want.format].decode(reply.data);
    for (const [key, text] of Object.entries(want.headers ?? {})) assert.equal(reply.headers.get(key), text, key);
    if (want.code === undefined) {
      assertNoError(reply);
      assert.deepEqual(value, want.value);
      return;
    }
    const error = reply.headers.get("Nats-Service-Error");
    assert.equal(reply.headers.get("Nats-Service-Error-Code"), String(want.code), error);
    assert.deepEqual(Object.keys(value).sort(), ["actor", "code", "endpoint", "error"]);
    assert.ok(value.error);
    for (const text of want.mentions ?? []) assert.ok(error.includes(text), error);
  });
}

test("a gather says who was killed and who is silent", async () => {
  const [, killed, , silent] = process.env.CASTNET_PIDS.split(" ").map(Number);
  process.kill(silent, "SIGSTOP");
  try {
    process.kill(killed, "SIGKILL");
    const headers = headersOf([["Castnet-TTL", "5s"]]);
    const reply = await nats.request(gateway("get", process.env.CASTNET_DOOMED), "", { headers, timeout });
    assertNoError(reply);
    assert.deepEqual(reply.json(), [0, null, 0, null]);
    const got = ["Asked", "Answered", "Failed", "Missing"].map((k) => reply.headers.get(`Castnet-${k}`));
    assert.deepEqual(got, ["4", "2", "1", "1"]);
    assert.equal(reply.headers.get("Castnet-Failed-Region"), "host=0,gpu=1");
    assert.equal(reply.headers.get("Castnet-Missing-Region"), "host=1,gpu=1");
    assert.match(reply.headers.get("Castnet-Partial"), /killed/);
  } finally {
    process.kill(silent, "SIGCONT");
  }
});

test("one port is asked alone", async () => {
  const parts = { mesh: process.env.CASTNET_MESH, rank: 2, gen: 0, actor: process.env.CASTNET_ACTOR, port: "add", sender: "u-anon.x" };
  assert.equal((await nats.request(subject("p", parts), "8", { timeout })).json(), 8);
  assert.deepEqual(await gather("application/json", "get"), [0, 0, 8, 0]);
});

test("hosts introduce themselves", async () => {
  const host = (await nats.request(subject("hr", { host: "any", verb: "info", sender: "u-anon.x" }), "", { timeout })).json();
  assert.ok(["a", "b"].includes(host.label), host.label);
});

// A rank of a mesh of the actor plain: serves the subject in its argument.

import { connect, headers } from "@nats-io/transport-node";

const subject = process.argv[2];
const nats = await connect({ servers: process.env.NATS_URL, token: process.env.NATS_TOKEN });
const messages = nats.subscribe(subject);
await nats.flush();
console.log(`serving ${subject}`);

for await (const m of messages) {
  const message = m.json();
  switch (message) {
    case "fail": {
      const h = headers();
      h.set("Nats-Service-Error", "out of paper");
      h.set("Nats-Service-Error-Code", "507");
      m.respond("", { headers: h });
      break;
    }
    case "nothing":
      m.respond("");
      break;
    case "garbage":
      m.respond("no JSON");
      break;
    case "silence":
      break;
    case "headers":
      m.respond(JSON.stringify(Object.fromEntries(m.headers.keys().map((k) => [k, m.headers.get(k)]))));
      break;
    default:
      m.respond(JSON.stringify(typeof message === "number" ? 2 * message : message));
  }
}

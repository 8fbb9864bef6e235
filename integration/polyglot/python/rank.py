"""A rank of a mesh of the actor plain: serves the subject in its argument."""

import json
import os
import sys

from natsclient import Client

subject = sys.argv[1]
nats = Client(os.environ["NATS_URL"], os.environ["NATS_TOKEN"])
nats.subscribe(subject)
nats.flush()
print("serving", subject, flush=True)

while True:
    m = nats.next(timeout=600)
    if not m.reply:
        continue  # it is told, and not asked
    message = json.loads(m.data)
    if message == "fail":
        nats.publish(m.reply, headers={"Nats-Service-Error": "out of paper", "Nats-Service-Error-Code": "507"})
    elif message == "nothing":
        nats.publish(m.reply)
    elif message == "garbage":
        nats.publish(m.reply, b"no JSON")
    elif message == "headers":
        nats.publish(m.reply, json.dumps(m.headers).encode())
    elif message != "silence":
        nats.publish(m.reply, json.dumps(2 * message if isinstance(message, int) else message).encode())

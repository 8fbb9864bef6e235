"""Stands in for nats-py where that is not installed: the few of its calls that docs/any-nats-client.md uses,
over natsclient.py, so that the program on the page is run, and not only read."""

import natsclient


async def connect(servers, token=None):
    return _Connection(natsclient.Client(servers, token))


class _Message:
    def __init__(self, client, message):
        self._client, self.reply = client, message.reply
        self.subject, self.headers, self.data = message.subject, message.headers, message.data

    async def respond(self, data):
        self._client.publish(self.reply, data)


class _Connection:
    def __init__(self, client):
        self._client = client

    async def request(self, subject, payload=b"", timeout=0.5, headers=None):
        return _Message(self._client, self._client.request(subject, payload, headers or {}, timeout))

    async def publish(self, subject, payload=b"", reply="", headers=None):
        self._client.publish(subject, payload, headers or {}, reply)

    def new_inbox(self):
        return "_INBOX.page"

    async def subscribe(self, subject, queue=""):
        self._client.subscribe(subject, queue)
        return _Subscription(self._client)

    async def flush(self):
        self._client.flush()

    async def close(self):
        self._client.close()


class _Subscription:
    def __init__(self, client):
        self._client = client

    @property
    async def messages(self):
        while True:
            yield await self.next_msg(timeout=600)

    async def next_msg(self, timeout=1.0):
        return _Message(self._client, self._client.next(timeout))

    async def unsubscribe(self):
        pass

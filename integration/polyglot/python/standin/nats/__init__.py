"""Stands in for nats-py where that is not installed: the few of its calls that docs/any-nats-client.md uses,
over natsclient.py, so that the program on the page is run, and not only read."""

import natsclient


async def connect(servers, token=None):
    return _Connection(natsclient.Client(servers, token))


class _Message:
    def __init__(self, message):
        self.subject, self.headers, self.data = message.subject, message.headers, message.data


class _Connection:
    def __init__(self, client):
        self._client = client

    async def request(self, subject, payload=b"", timeout=0.5, headers=None):
        return _Message(self._client.request(subject, payload, headers or {}, timeout))

    async def publish(self, subject, payload=b"", reply="", headers=None):
        self._client.publish(subject, payload, headers or {}, reply)

    def new_inbox(self):
        return "_INBOX.page"

    async def subscribe(self, subject):
        self._client.subscribe(subject)
        return _Subscription(self._client)

    async def close(self):
        self._client.close()


class _Subscription:
    def __init__(self, client):
        self._client = client

    async def next_msg(self, timeout=1.0):
        return _Message(self._client.next(timeout))

    async def unsubscribe(self):
        pass

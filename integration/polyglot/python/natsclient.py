"""A NATS client in a hundred lines of the standard library, for tests and for reading.

Use nats-py in programs: it reconnects, speaks TLS and is asynchronous. This one shows how little a cast
through castnet's gateway asks of a client: a subject, headers, a body, and a reply subject.
"""

import json
import secrets
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


class NoResponders(Exception):
    """Nobody has subscribed the subject."""


@dataclass
class Message:
    subject: str
    headers: dict = field(default_factory=dict)
    data: bytes = b""
    status: str = ""
    reply: str = ""

    @property
    def error(self):
        """What went wrong, or None."""
        return self.headers.get("Nats-Service-Error")


class Client:
    def __init__(self, url, token=None, timeout=10.0):
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port or 4222), timeout)
        self._in = self._socket.makefile("rb")
        self._subscriptions = 0
        self.info = json.loads(self._line(time.monotonic() + timeout).removeprefix(b"INFO "))
        options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True,
                   "lang": "python", "version": "1", "protocol": 1}
        if token:
            options["auth_token"] = token
        self._send(b"CONNECT %s\r\nPING\r\n" % json.dumps(options).encode())
        self._next(time.monotonic() + timeout, until=b"PONG")

    def close(self):
        self._in.close()
        self._socket.close()

    def publish(self, subject, data=b"", headers=(), reply=""):
        """headers are pairs, or a dict."""
        pairs = headers.items() if isinstance(headers, dict) else headers
        head = "NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in pairs) + "\r\n"
        head = head.encode()
        self._send(f"HPUB {subject} {reply} {len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n")

    def subscribe(self, subject, queue=""):
        self._subscriptions += 1
        self._send(f"SUB {subject} {queue} {self._subscriptions}\r\n".encode())
        return self._subscriptions

    def unsubscribe(self, sid):
        self._send(f"UNSUB {sid}\r\n".encode())

    def flush(self, timeout=10.0):
        """Returns when the server has taken up everything that was sent."""
        self._send(b"PING\r\n")
        self._next(time.monotonic() + timeout, until=b"PONG")

    def next(self, timeout=10.0):
        """The next message, whichever subscription it is for."""
        return self._next(time.monotonic() + timeout)

    def request(self, subject, data=b"", headers=(), timeout=30.0):
        """The one reply to a request."""
        return next(self._replies(subject, data, headers, timeout))

    def stream(self, subject, data=b"", headers=(), timeout=30.0):
        """Each reply to a request, the last of which is empty."""
        for message in self._replies(subject, data, headers, timeout):
            yield message
            if not message.data:
                return

    def _replies(self, subject, data, headers, timeout):
        inbox = "_INBOX." + secrets.token_hex(8)
        sid = self.subscribe(inbox)
        try:
            self.publish(subject, data, headers, inbox)
            deadline = time.monotonic() + timeout
            while True:
                message = self._next(deadline)
                if message.subject != inbox:
                    continue  # late, for a request before
                if message.status == "503":
                    raise NoResponders(subject)
                yield message
        finally:
            self.unsubscribe(sid)

    def _send(self, data):
        self._socket.sendall(data)

    def _line(self, deadline):
        self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
        line = self._in.readline()
        if not line:
            raise ConnectionError("the server closed the connection")
        return line.rstrip(b"\r\n")

    def _next(self, deadline, until=None):
        while True:
            line = self._line(deadline)
            kind, _, rest = line.partition(b" ")
            if kind in (b"MSG", b"HMSG"):
                message = self._message(kind, rest.split())
                if until is None:
                    return message
            elif kind == b"PING":
                self._send(b"PONG\r\n")
            elif kind == b"-ERR":
                raise ConnectionError(line.decode())
            elif kind == until:
                return None

    def _message(self, kind, words):
        size = int(words[-1])
        head = int(words[-2]) if kind == b"HMSG" else 0
        body = self._in.read(size + 2)[:size]
        message = Message(words[0].decode(), data=body[head:])
        if len(words) == (5 if head else 4):
            message.reply = words[2].decode()
        lines = body[:head].decode().split("\r\n")
        message.status = lines[0].removeprefix("NATS/1.0").strip()[:3]
        for line in lines[1:]:
            key, colon, value = line.partition(":")
            if colon:
                message.headers[key] = value.strip()
        return message

"""Casts to a live mesh: four counters, host=2,gpu=2, named demo; and four echoes, named parrots."""

import json
import os
import signal
import unittest

import cbor2

from natsclient import Client, NoResponders
from subjects import subject
from test_vectors import VECTORS

FORMATS = {
    "application/json": (lambda v: json.dumps(v).encode(), json.loads),
    "application/cbor": (cbor2.dumps, cbor2.loads),
}
TOO_MUCH = 2**63 - 1


class Cast(unittest.TestCase):
    def setUp(self):
        self.nats = Client(os.environ["NATS_URL"], os.environ["NATS_TOKEN"])
        self.addCleanup(self.nats.close)
        self.gather("application/json", "reset")

    def gateway(self, endpoint, mesh="demo", actor="counter"):
        return subject("cast", {"meshname": mesh, "actor": actor, "endpoint": endpoint, "sender": "u-anon.x"})

    def ask(self, format, endpoint, value=None, headers=()):
        """The one reply, and its value."""
        encode, decode = FORMATS[format]
        data = b"" if value is None else encode(value)
        reply = self.nats.request(self.gateway(endpoint), data, {"Content-Type": format, **dict(headers)})
        self.assertEqual(format, reply.headers["Content-Type"])
        return reply, decode(reply.data) if reply.data else None

    def gather(self, format, endpoint, value=None, region=""):
        reply, values = self.ask(format, endpoint, value, {"Castnet-Region": region})
        self.assertIsNone(reply.error)
        return values

    def assert_covers(self, reply, asked, failed=0, region=None):
        want = {"Asked": asked, "Answered": asked - failed, "Failed": failed, "Missing": 0}
        self.assertEqual({k: str(v) for k, v in want.items()}, {k: reply.headers["Castnet-" + k] for k in want})
        self.assertEqual(region, reply.headers.get("Castnet-Failed-Region"))

    def test_a_reducer_folds_all_answers_into_one(self):
        for format in FORMATS:
            self.gather(format, "reset")
            reply, total = self.ask(format, "add", 5, {"Castnet-Reduce": "sum"})
            self.assertEqual(20, total)
            self.assert_covers(reply, 4)

    def test_gather_has_an_answer_of_each_rank_in_order(self):
        for format in FORMATS:
            self.gather(format, "reset")
            self.gather(format, "add", 7, "host=1")
            reply, values = self.ask(format, "get")
            self.assertEqual([0, 0, 7, 7], values)
            self.assert_covers(reply, 4)
            self.assertEqual([0, 7], self.gather(format, "get", region="gpu=1"))

    def test_stream_has_a_message_of_each_rank_and_ends_with_an_empty_one(self):
        for format, (encode, decode) in FORMATS.items():
            self.gather(format, "reset")
            headers = {"Content-Type": format, "Castnet-Collect": "stream", "Castnet-Region": "host=0"}
            *answers, end = self.nats.stream(self.gateway("add"), encode(3), headers)
            got = {m.headers["Castnet-Rank"]: (m.headers["Castnet-Point"], decode(m.data)) for m in answers}
            self.assertEqual({"0": ("host=0,gpu=0", 3), "1": ("host=0,gpu=1", 3)}, got)
            self.assertEqual(2, len(answers))
            self.assertEqual(b"", end.data)
            self.assert_covers(end, 2)

    def test_choose_is_answered_by_one_rank(self):
        for format in FORMATS:
            self.gather(format, "reset")
            reply, value = self.ask(format, "add", 9, {"Castnet-Collect": "choose", "Castnet-Region": "gpu=1"})
            self.assertEqual(9, value)
            self.assertIn((reply.headers["Castnet-Rank"], reply.headers["Castnet-Point"]),
                          [("1", "host=0,gpu=1"), ("3", "host=1,gpu=1")])
            self.assertEqual(9, sum(self.gather(format, "get")))

    def test_post_is_answered_when_it_is_sent(self):
        for format in FORMATS:
            self.gather(format, "reset")
            reply, value = self.ask(format, "add", 2, {"Castnet-Collect": "send"})
            self.assertIsNone(reply.error)
            self.assertEqual(b"", reply.data)
            self.assertEqual("4", reply.headers["Castnet-Asked"])
            self.assertNotIn("Castnet-Answered", reply.headers)
            self.assertEqual([2, 2, 2, 2], self.gather(format, "get"))  # casts of one gateway keep their order

    def test_some_answers_come_with_what_is_missing(self):
        for format in FORMATS:
            self.gather(format, "reset")
            self.gather(format, "add", TOO_MUCH, "gpu=0")
            reply, values = self.ask(format, "add", 1)
            self.assertEqual([None, 1, None, 1], values)
            self.assertIsNone(reply.error)
            self.assertIn("does not fit in 64 bits", reply.headers["Castnet-Partial"])
            self.assert_covers(reply, 4, 2, "host=*,gpu=0")
            reply, total = self.ask(format, "add", 1, {"Castnet-Reduce": "sum"})
            self.assertEqual(4, total)
            self.assert_covers(reply, 4, 2, "host=*,gpu=0")

    def test_a_stream_has_the_errors_in_it(self):
        for format, (encode, decode) in FORMATS.items():
            self.gather(format, "reset")
            self.gather(format, "add", TOO_MUCH, "gpu=0")
            headers = {"Content-Type": format, "Castnet-Collect": "stream"}
            *answers, end = self.nats.stream(self.gateway("add"), encode(1), headers)
            failed = {m.headers["Castnet-Point"]: m for m in answers if m.error}
            self.assertEqual({"host=0,gpu=0", "host=1,gpu=0"}, set(failed))
            for m in failed.values():
                self.assertEqual("500", m.headers["Nats-Service-Error-Code"])
                self.assertIn("does not fit in 64 bits", decode(m.data)["error"])
            self.assertEqual([1, 1], [decode(m.data) for m in answers if not m.error])
            self.assert_covers(end, 4, 2, "host=*,gpu=0")

    def test_a_stream_that_is_refused_ends_too(self):
        for format, (encode, decode) in FORMATS.items():
            headers = {"Content-Type": format, "Castnet-Collect": "stream", "Castnet-Region": "host=9"}
            refused, end = self.nats.stream(self.gateway("add"), encode(1), headers)
            self.assertEqual("400", refused.headers["Nats-Service-Error-Code"])
            self.assertNotIn("Castnet-Point", refused.headers)
            self.assertIn("host=9", decode(refused.data)["error"])
            self.assert_covers(end, 0)

    def test_a_stream_says_who_was_killed_and_who_is_silent(self):
        _, killed, silent, _ = map(int, os.environ["CASTNET_PIDS"].split())
        os.kill(silent, signal.SIGSTOP)
        self.addCleanup(os.kill, silent, signal.SIGCONT)
        os.kill(killed, signal.SIGKILL)
        *answers, end = self.nats.stream(self.gateway("get", os.environ["CASTNET_DOOMED"]),
                                         headers={"Castnet-Collect": "stream", "Castnet-TTL": "3s"})
        codes = {m.headers["Castnet-Point"]: m.headers.get("Nats-Service-Error-Code") for m in answers}
        self.assertEqual({"host=0,gpu=0": None, "host=0,gpu=1": "410", "host=1,gpu=0": "504", "host=1,gpu=1": None}, codes)
        self.assertTrue(all(m.data for m in answers))
        got = {k: end.headers["Castnet-" + k] for k in ("Asked", "Answered", "Failed", "Missing")}
        self.assertEqual({"Asked": "4", "Answered": "2", "Failed": "1", "Missing": "1"}, got)
        self.assertEqual("host=0,gpu=1", end.headers["Castnet-Failed-Region"])
        self.assertEqual("host=1,gpu=0", end.headers["Castnet-Missing-Region"])

    def test_no_answer_at_all_is_an_error(self):
        for format in FORMATS:
            self.gather(format, "reset")
            self.gather(format, "add", TOO_MUCH)
            reply, said = self.ask(format, "add", 1)
            self.assertEqual("500", reply.headers["Nats-Service-Error-Code"])
            self.assertIn("does not fit in 64 bits", said["error"])
            self.assert_covers(reply, 4, 4, "*")

    def test_requests_are_answered_as_the_vectors_say(self):
        for v in VECTORS["requests"]:
            with self.subTest(v["name"]):
                reply = self.nats.request(self.gateway(v["endpoint"], v["meshname"], v["actor"]),
                                          bytes.fromhex(v["body"]), v["headers"])
                want = v["reply"]
                self.assertEqual(want["format"], reply.headers["Content-Type"])
                value = FORMATS[want["format"]][1](reply.data)
                self.assertEqual(want.get("headers", {}), {k: reply.headers.get(k) for k in want.get("headers", {})})
                if "code" not in want:
                    self.assertIsNone(reply.error)
                    self.assertEqual(want["value"], value)
                    continue
                self.assertEqual(str(want["code"]), reply.headers["Nats-Service-Error-Code"], reply)
                self.assertEqual({"code", "error", "actor", "endpoint"}, set(value))
                self.assertTrue(value["error"])
                for text in want.get("mentions", []):
                    self.assertIn(text, reply.error)

    def test_values_come_back_as_they_were_sent(self):
        for v in VECTORS["values"]:
            for format, (encode, decode) in FORMATS.items():
                reply = self.nats.request(self.gateway("echo", "parrots", "echo"), encode(v["json"]),
                                          {"Content-Type": format, "Castnet-Collect": "choose"})
                self.assertIsNone(reply.error)
                self.assertEqual(v["json"], decode(reply.data))

    def test_each_rank_answers_a_raw_cast_for_itself(self):
        for format, (encode, decode) in FORMATS.items():
            self.gather(format, "reset")
            to = subject("k", {"mesh": os.environ["CASTNET_MESH"], "actor": os.environ["CASTNET_ACTOR"],
                               "port": "add", "where": "_-1", "sender": "u-anon.x"})
            sid = self.nats.subscribe("_INBOX.raw")
            self.nats.publish(to, encode(6), {"Content-Type": format}, "_INBOX.raw")
            answers = [self.nats.next() for _ in range(2)]
            self.nats.unsubscribe(sid)
            self.assertEqual({"1", "3"}, {m.headers["Castnet-Rank"] for m in answers})
            self.assertEqual([6, 6], [decode(m.data) for m in answers])

    def test_one_port_is_asked_alone(self):
        to = subject("p", {"mesh": os.environ["CASTNET_MESH"], "rank": 2, "gen": 0, "actor": os.environ["CASTNET_ACTOR"],
                           "port": "add", "sender": "u-anon.x"})
        self.assertEqual(8, json.loads(self.nats.request(to, b"8").data))
        self.assertEqual([0, 0, 8, 0], self.gather("application/json", "get"))

    def test_hosts_introduce_themselves(self):
        host = json.loads(self.nats.request(subject("hr", {"host": "any", "verb": "info", "sender": "u-anon.x"})).data)
        self.assertIn(host["label"], ("a", "b"))
        to = subject("hr", {"host": host["id"], "verb": "info", "sender": "u-anon.x"})
        self.assertEqual(host["id"], json.loads(self.nats.request(to).data)["id"])

    def test_nobody_listens_beside_the_table(self):
        with self.assertRaises(NoResponders):
            self.nats.request("castnet.v2.default.cast.demo.counter.get.u-anon.x")

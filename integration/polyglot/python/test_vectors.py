"""What spec/vectors.json says, without a mesh."""

import json
import pathlib
import unittest

import cbor2

import subjects

VECTORS = json.loads((pathlib.Path(__file__).parents[3] / "spec" / "vectors.json").read_text())


def plain(value):
    """A decoded value as the vectors write it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value


class Vectors(unittest.TestCase):
    def test_subjects_are_built(self):
        for v in VECTORS["subjects"]:
            self.assertEqual(v["subject"], subjects.subject(v["kind"], v["parts"], v["space"]))

    def test_tokens_keep_their_rules(self):
        for v in VECTORS["tokens"]:
            self.assertEqual(v["valid"], subjects.valid(v["rule"], v["text"]), v)

    def test_points_are_ranks(self):
        for v in VECTORS["points"]:
            self.assertEqual(v["point"], subjects.point(v["extent"], v["rank"]))

    def test_values_are_the_same_in_both_formats(self):
        for v in VECTORS["values"]:
            self.assertEqual(v["json"], cbor2.loads(bytes.fromhex(v["cbor"])))
            self.assertEqual(v["cbor"], cbor2.dumps(v["json"], canonical=True).hex())

    def test_cbor_in_packets_is_read(self):
        for v in VECTORS["packets"]:
            for body in v.get("cbor", []):
                self.assertEqual(body["value"], plain(cbor2.loads(bytes.fromhex(body["hex"]))), v["name"])

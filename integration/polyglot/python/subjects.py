"""castnet's subjects: what goes between the dots, and what a token may be. See spec/vectors.json."""

import re

LABEL = r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}"
UNIQUE = LABEL + r"-[0-9a-z]{13}"
NUMBER = r"(?:0|[1-9][0-9]{0,9})"
NAME = f"(?:{LABEL}|{UNIQUE})"
RULES = {
    "label": LABEL,
    "name": NAME,
    "port": f"(?:{LABEL}|_[0-9a-z]{{1,31}})",
    "where": f"(?:_|{NUMBER})(?:-(?:_|{NUMBER})){{0,3}}",
    "sender": f"[hpsguowc]-{LABEL}\\.(?:{LABEL}|{UNIQUE}_{NUMBER}-{NUMBER})",
}


def valid(rule, text):
    """Reports whether a token keeps its rule. Numbers have at most 32 bits."""
    if not re.fullmatch(RULES[rule], text, re.ASCII):
        return False
    return rule != "where" or all(c == "_" or int(c) < 2**32 for c in text.split("-"))


def _rank(parts):
    if "rank" not in parts:
        return "_"
    numbers = [parts["rank"], parts["gen"]] + ([parts["index"]] if parts.get("index") else [])
    return "-".join(map(str, numbers))


FORMS = {
    "p": lambda p: [p["mesh"], _rank(p), p["actor"], p["port"], p["sender"]],
    "k": lambda p: [p["mesh"], p["actor"], p["port"], p["where"], p["sender"]],
    "f": lambda p: [p["mesh"], _rank(p), p["sender"]],
    "c": lambda p: [p["mesh"], _rank(p), p["sender"]],
    "n": lambda p: [p["mesh"], _rank(p), p["link"]],
    "hr": lambda p: [p["host"], p["verb"], p["sender"]],
    "hw": lambda p: [p["host"], p["verb"], p["sender"]],
    "hv": lambda p: [p["mesh"], _rank(p), p["sender"]],
    "cast": lambda p: [p["meshname"], p["actor"], p["endpoint"], p["sender"]],
    "hb": lambda p: [p["kind"], p["sender"]],
    "ev": lambda p: [p["kind"], p.get("mesh", "_"), _rank(p), p.get("actor", "_"), p["sender"]],
    "log": lambda p: [p["mesh"], _rank(p), p["stream"], p["sender"]],
    "r": lambda p: [p["sender"], p["token"]],
}


def subject(kind, parts, space="castnet.v1.default"):
    return ".".join([space, kind] + FORMS[kind](parts))


def point(extent, rank):
    """The coordinates of a rank: the last dimension runs fastest."""
    out = []
    for dimension in reversed(extent.split(",")):
        label, size = dimension.split("=")
        rank, at = divmod(rank, int(size))
        out.append(f"{label}={at}")
    return ",".join(reversed(out))

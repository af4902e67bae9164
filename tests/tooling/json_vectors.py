#!/usr/bin/env python3
"""Writes the results of Python's `json.dumps(value, indent=2)` for unusual values, for the tests of
`host/record/src/trajectory`.

    python3 tests/tooling/json_vectors.py > host/record/src/trajectory/python.json
"""

import json
import random
import sys

random.seed(7)
EDGES = [0, 0x1F, 0x20, 0x7E, 0x7F, 0x80, 0xFF, 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
VALUES = [
    {},
    [],
    [[], {}, [[]], {"a": {}}],
    {"b": 1, "a": [True, False, None], "é": "ключ"},
    "".join(map(chr, range(0x20))) + '"\\/\x7f<>&\'',
    "".join(map(chr, EDGES)),
    "😀 e\u0301 漢字 \u202e",
    [0, -1, 2**63 - 1, -(2**63), 2**64 - 1],
    [0.0, -0.0, 1.0, 0.1 + 0.2, 1e-4, 1e-5, 1.5e-7, 1e15, 1e16, 1e17, -1.25e100, 5e-324],
    [random.random() * 10 ** random.randint(-20, 20) for _ in range(200)],
    [1763711263.123457 + index / 3 for index in range(20)],
    ["".join(chr(random.choice(EDGES + [random.randrange(0x20, 0xD800)])) for _ in range(9)) for _ in range(60)],
]

json.dump([{"value": value, "text": json.dumps(value, indent=2)} for value in VALUES], sys.stdout, indent=1)
print()

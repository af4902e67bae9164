#!/usr/bin/env python3
"""Writes the results of PyYAML's `safe_load` for many documents, as JSON on stdout.

Every case is `[group, document, result]`. A result is a tagged value (see `tagged`), or
`{"error": CLASS, "line": N, "column": N}`. Lines and columns begin at 1, and are null where PyYAML names
no place.
"""

import datetime
import io
import itertools
import json
import random
import sys

import yaml

SCALARS = r"""
yes Yes YES no No NO true True TRUE false False FALSE on On ON off Off OFF y Y n N yEs tRUE oN
null Null NULL ~ nULL None none nil undefined
0 1 -1 +1 00 01 007 010 0777 08 09 0o7 0o17 0O7 +010 -010 0_7 0_ 0b101 0b1_0 -0b11 0b 0b_ 0b2 0B1 0x1f
0xFF 0x_F +0xa -0xA 0xg 0x 0x_ 0X1 1_000 10_000 1__0 1_ _1 _ -_1 +_1 123456789012 9223372036854775807
9223372036854775808 18446744073709551615 18446744073709551616 -9223372036854775808
-9223372036854775809 340282366920938463463374607431768211456 123456789012345678901234567890
0x1ffffffffffffffffffff 07777777777777777777777777
1:30 1:30:45 190:20:30 1:60 1:5 0:30 01:30 -1:30 +1:30 1:30:60 1:2:3:4 1_0:30 1:3_0 12:30:45.5 1:30.
1:30. 0:30.5 -1:30.25 1:30._5 190:20:30.15 1:30e3
1. 0. 3. -3. +3. 1.5 -1.5 +1.5 .5 -.5 +.5 . .. ... .5. 1.5.2 1_0.5 1.5_0 1._5 ._5 .5_ 1.e+3 1.e3 1e3 1E3
1e+3 1e-3 1.0e3 1.0e+3 1.0E-3 1.5e+3 1.5e-10 .5e+2 .5e2 -.5e+2 1.0e+400 1.0e-400 1.5e+ 1e 1.5e 12e03 1.2.3
685.230_15e+03 0.1 0.30000000000000004 1.7976931348623157e+308 5.0e-324 00.5 0x1.5 1_.5 1,000 1,5
.inf .Inf .INF +.inf -.inf -.INF .iNF inf Inf -inf .nan .NaN .NAN .Nan nan NaN -.nan +.nan
2024-01-15 2024-1-5 2024-01-1 2024-13-01 2024-02-30 2023-02-29 2024-02-29 0000-01-01 0001-01-01 9999-12-31
2001-12-14t21:59:43.10-05:00 2001-12-14T21:59:43Z 2001-12-15T02:59:43.1Z 2001-12-14T21:59:43.123456789Z
2001-12-14T1:02:03 2001-1-1T1:02:03 2001-12-14T21:59 2001-12-14T24:00:00 2001-12-14T21:60:00
2001-12-14T21:59:60 2001-12-14T21:59:43+5 2001-12-14T21:59:43+05:30 2001-12-14T21:59:43-12
2001-12-14T21:59:43+25:00 2001-12-14T21:59:43. 2001-12-14T21:59:43.5 20240115 2024-01 2024/01/15
01-02-2024 12:30 12:30:45 1.2.3.4 127.0.0.1 ::1 v1.2 1.0.0-rc1 3.11 3.10 1.10
<< = ! != === < > -- --- -a a- a-b ?a :a a:b a::b a#b a,b [] {} [ ] { } , ' " ''
% %a @a `a` `cmd` &a *a |a >a -1a 1a 0a 0.0.0 0-0 +- -+ + - -. +. -0 +0 -0.0 +0.0 0.0e+0
openai/gpt-5-mini anthropic/claude-sonnet-4-5 http://localhost:8080/v1 C:\path\x \n $HOME ${X} {{x}} {%x%}
é 漢字 😀 naïve “quoted” a…b
""".split()

SPACED = [
    "", " ", "a b", "a  b", "a\tb", "\ta", "a\t", "yes no", "1 2", "a #b", "a # b", "a# b", "# b", "a: b",
    "a :b", "a : b", "- a", "? a", "a - b", "2001-12-14 21:59:43", "2001-12-14 21:59:43.10 -5",
    "2001-12-14\t21:59:43 Z", "2001-12-14   1:02:03 +01", "2024-01-15 12:30", "null # c", "~ # c", "5 # c", "yes,",
    "{{ x }}", "{% if x %}", "[a, b] c", "{a: b} c", "'a' b", '"a" b', "'a'b", "&x a", "&x", "!!str", "!!str a",
    "*x", "& a", "* a", "! a", "!", "!a b", "-  a", "|", ">", "| a", "> a", "a |", "%", "@", "`", "@ a",
]

QUOTED = [
    "''", '""', "'a'", '"a"', "'it''s'", "'a\\nb'", '"a\\nb"', '"a\\tb\\\\c\\"d"', "'a\"b'", '"a\'b"',
    "'5'", '"5"', "'yes'", '"null"', "'~'", "''''", "'''a'''", '"\\x41\\u00e9\\U0001f600"', '"\\0\\a\\b\\e\\f\\v\\r"',
    '"\\N\\_\\L\\P\\/\\ "', '"\\q"', '"\\x4"', '"\\u12"', '"\\ud800"', '"\\U00110000"', '"\\ud83d\\ude00"', '"\\', '"a', "'a",
    "'a\n  b'", '"a\n  b"', "'a\n\n  b'", '"a\n\n\n  b"', '"a  \n  \t b"', '"a\\\n  b"', '"a\\  \n b"', '"a \\\n  \\ b"',
    "'a\nb'", '"a\nb"', "'a\n---\nb'", '"a\n... b"', '"a\n---x"', "'\ta\t'", '"\\\ta"', '"a\tb"', "'a  '", '"  a  "', "'\n a'",
    "'a\n '", '"\n\n"', '"a\\n\n b"', "'#a'", '"# a"', "'a: b'", '"a" # c', '"a"# c', "'a' 'b'", '"\\\n\n a"', "'\\'", "'\\\\'",
    '"é漢😀"', '"a\x85b"', '"a\u2028b"', "'a\u2029 b'", '"\ufeff"', '"\x7f"', '"\x01"', '"\xa0"', '"\\x7f\\x00"',
]

BODIES = [
    "", "x", "x\n", "x\n\n", "x\n\n\n", "x\ny", "x\ny\n", "x\n\ny\n", "x\n\n\ny\n\n", " x\ny\n", "x\n y\nz\n", "x\n  y\n\n  z\nw\n",
    "\nx\n", "\n\nx\ny\n", "x \ny\t\n", "\tx\n", "# x\ny\n", "x # y\n", "- a\n- b\n", "a: b\n", "'q' \"r\"\n", "{{ a }}\n{% b %}\n", "é\n漢 字\n",
    "x\n\n y\n\nz\n\n\n", "---\n", "x\n---\n", "x\x85y\n", "x\u2028y\n", "   \n", "\n", "\n\n", "x\n   \ny\n",
]

STRUCTURES = [
    "", "\n", "# c\n", "# c", "---\n", "---", "--- a", "--- |\n a\n", "--- {a: 1}\n", "---\n---\n", "---\na\n...\n", "a\n...\n", "a\n...\n# c\n",
    "a: 1\n---\nb: 2\n", "a: 1\n...\n---\nb: 2\n", "a: 1\n...\nb: 2\n", "...\n", "...\na: 1\n", "a: 1\n---\n", "%YAML 1.1\n---\na: 1\n",
    "%YAML 1.2\n---\na: 1\n", "%YAML 2.0\n---\na\n", "%YAML 1.1\na: 1\n", "%YAML 1.1\n%YAML 1.1\n---\na\n", "%YAML x\n---\n", "%FOO bar\n---\na\n",
    "%TAG !e! tag:yaml.org,2002:\n---\n!e!str 5\n", "%TAG ! tag:yaml.org,2002:\n---\n!int '5'\n", "%TAG !e! x\n%TAG !e! y\n---\na\n", "!e!str 5\n",
    "%YAML 1.1 # c\n---\na\n", "%YAML 1.1x\n---\na\n", "a: %b\n", "a:\n  %b\n", " %YAML 1.1\n---\na\n",
    "a: 1\nb: 2\n", "a:\n  b:\n    c: d\n", "a:\n b: 1\n c: 2\n", "a:\n   b: 1\n  c: 2\n", "a:\n  b: 1\n c: 2\n", "a:\n- 1\n- 2\n", "a:\n  - 1\n  - 2\n",
    "a:\n- 1\nb: 2\n", "- a\n- b\n", "- - a\n  - b\n- c\n", "-\n  a\n-\n", "- a: 1\n  b: 2\n- c: 3\n", "-   a: 1\n    b: 2\n", "- a: 1\n b: 2\n", "- a\nb: 1\n",
    "a: 1\n- b\n", "a: b: c\n", "a: - b\n", "- - - a\n", "a: {b: 1, c: [2, 3]}\n", "a: [1, 2\n  , 3]\n", "a: [1,\n2]\n", "a: [\n1, 2\n]\n", "a: [\n  1,\n  2,\n]\n",
    "a: {\n  b: 1,\n  c: 2,\n}\n", "a: [1, 2\nb: 3\n", "a: {b: 1\nc: 2\n", "[a, b]: c\n", "{a: b}: c\n", "? a\n: b\n", "? a\n", "? [a]\n: b\n", "? |\n  x\n: y\n", "? a\n? b\n: c\n",
    "? - a\n: b\n", "{? a : b}\n", "{? a}\n", "[? a : b]\n", "[a: b, c]\n", "[a: b: c]\n", "{a, b: , c}\n", "{a: 1, , b: 2}\n", "[a, , b]\n", "[,]\n", "{,}\n", "[a,]\n", "[]\n", "{}\n",
    "[", "]", "{", "}", "[}", "{]", "[a, b", "{a: b", "a]", "a: ]", "a: [}]", "[[[]]]", "[[a], [b, [c]]]", "{a: {b: {c: d}}}", "{a:1}", "{a:1, b: 2}", "{\"a\":1}", "{'a':1, \"b\": 2}", "[\"a\":1]",
    "{a: b, a: c}", "{a b: c d}", "[a b, c d]", "{a: [b: c]}", "{http://x.y: 1}", "{a: http://x.y/z}", "[http://x:80/y]", "{a::b}", "{:a}", "{a:}", "{: a}", "[: a]", "[:]", "{:}", "[a:]", "[a :b]",
    "[a?b]", "[?a]", "{?a: b}", "[a#b, c]", "[a #b\n, c]", "[a # b]", "[-a, -1, - b]", "[-]", "[- a]", "{- a}", "[a-b]", "[a\n b]", "[a\n\n b]", "{a: b\n  c}", "{a: b\nc}", "a: {b\n  : c}", "{a\n: b}",
    "a: 1\na: 2\n", "a: 1\nb: 2\na: 3\n", "1: a\n1.0: b\ntrue: c\n", "0: a\nfalse: b\n", "~: a\nnull: b\n", "1: a\n'1': b\n", "yes: 1\n'yes': 2\n", "5: x\n", "1.5: x\n", "2024-01-01: x\n", ": x\n", ":\n", "? : x\n", "'': x\n",
    "a:\n", "a:\nb:\n", "a: \n  \nb: 1\n", "a:\n  b\n", "a:\n  b\n  c\n", "a: b\n  c\n", "a: b\n c\n", "a: b\nc\n", "a\nb\n", "a\n b\n", "a: b\n\n  c\n", "a: b\n\n\n  c\n\nd: e\n", "a b c\n d\n", "a: b #c\n  d\n", "a: b # c\n  d\n", "a: b\n # c\n  d\n",
    "a:b\n", "a :b\n", "a : b\n", "a :\n", "a: b:c\n", "a: b: c\n", "a: b:\n", "'a': b\n", "\"a\": b\n", "'a' : b\n", "'a':b\n", "\"a\":b\n", "a: 'b'\n", "a: 'b' c\n", "a: 'b'\n  c\n", "a: \"b\"c\n", "'a\n b': c\n", "a\n b: c\n", "a'b: c\n",
    "a: &x b\nc: *x\n", "a: &x [1, 2]\nb: *x\n", "a: &x {p: 1}\nb: *x\n", "&x a: b\nc: *x\n", "*x : a\n", "a: &x b\n*x : c\n", "a: *x\n", "a: &x *x\n", "a: &x b\nc: &x d\n", "a: &x\nb: *x\n", "a: &x\n  b: 1\nc: *x\n", "a: &x\n  - 1\nc: *x\n",
    "&x\na: 1\n", "&x a\n", "&x [*x]\n", "&x {a: *x}\n", "a: &1 b\nc: *1\n", "a: &x-y_z b\nc: *x-y_z\n", "a: &x.y b\n", "a: &é b\n", "a: &x, b\n", "[&x a, *x]\n", "[&x a, *x ]\n", "{&x a: *x}\n", "{a: &x , b: *x}\n", "a: &x b\nc: *xd\n", "a: & b\n", "a: &x &y b\n", "a: &x\n&y b: c\n",
    "b: &x {p: 1, q: 2}\nc:\n  <<: *x\n  q: 3\n", "b: &x {p: 1, q: 2}\nc:\n  q: 3\n  <<: *x\n", "b: &x {p: 1}\nd: &y {p: 2, r: 3}\nc:\n  <<: [*x, *y]\n  s: 4\n", "b: &x {p: 1}\nd: &y {p: 2}\nc:\n  <<: *x\n  <<: *y\n",
    "a: {<<: {b: 1}, c: 2}\n", "a: {<<: [{b: 1}, {b: 2, c: 3}], c: 4}\n", "a: {<<: 5}\n", "a: {<<: [1]}\n", "a: {<<: []}\n", "a: {<<: {}}\n", "a: {<<: ~}\n", "a: {<<: 'x'}\n", "a: {'<<': {b: 1}}\n", "a: {\"<<\": 1}\n", "a: <<\n", "[<<]\n", "<<: {a: 1}\nb: 2\n",
    "a: &x {p: 1}\nb: &y {<<: *x, q: 2}\nc: {<<: *y, r: 3}\n", "a: &x {p: {q: 1}}\nb:\n  <<: *x\n  p: {r: 2}\n", "a: &x {p: 1, p: 2}\nb: {<<: *x}\n", "a: {!!merge x: {b: 1}}\n", "<<: [[{a: 1}]]\n", "a: {<<: {b: 1}, b: 2, <<: {b: 3}}\n", "a: &x {p: 1}\nb: {<<: *x}\nc: *x\n",
    "a: &x {<<: *x}\n", "a: {=: 1}\n", "a: {=: 1, b: 2}\n", "a: !!str {=: x}\n", "a: !!int {=: '5'}\n", "!!str 5\n", "!!int '5'\n", "!!int 5.5\n", "!!int abc\n", "!!int ''\n", "!!float 5\n", "!!float '1e3'\n", "!!float abc\n", "!!float ''\n", "!!float inf\n", "!!float .inf\n", "!!bool 'yes'\n", "!!bool x\n", "!!bool 1\n", "!!bool YES\n",
    "!!null x\n", "!!null ''\n", "!!str\n", "!!str ~\n", "!!str yes\n", "a: !!str\nb: 1\n", "!!str [a]\n", "!!seq a\n", "!!seq [a]\n", "!!map {a: 1}\n", "!!map [a]\n", "!!seq {a: 1}\n", "!!map\na: 1\n", "!!timestamp 2024-01-01\n", "!!timestamp '2024-1-2'\n", "!!timestamp x\n", "!!timestamp '2001-12-14 21:59:43'\n",
    "!!set {a, b}\n", "!!omap [a: 1, b: 2]\n", "!!pairs [a: 1, a: 2]\n", "!!binary aGVsbG8=\n", "!!binary |\n  aGVs\n  bG8=\n", "!!binary x\n", "!!python/object:os.system x\n", "!!python/tuple [1, 2]\n", "!!python/name:os.system ''\n", "!foo a\n", "!foo [a]\n", "!foo {a: 1}\n", "!<tag:yaml.org,2002:str> 5\n", "!<!foo> a\n", "!<x a\n",
    "! 5\n", "! a\n", "! [a]\n", "! '5'\n", "!!int &x 5\n", "&x !!int '5'\n", "!!str &x 5\n", "!!str !!int 5\n", "!! 5\n", "!!s%74r 5\n", "!!s%7 5\n", "!!s%ff 5\n", "!a!b c\n", "!a{b c\n", "!!str, a\n", "[!!str 5, !!str, 5]\n", "[!!str, 5]\n", "{!!str 5: !!int '6'}\n", "a: !!str\n  b\n", "a: !!str |\n  5\n", "a: !!int |\n  5\n", "!!value a\n", "!!yaml a\n", "!!int 0x\n", "!!int '1:2:x'\n", "!!int '08'\n", "!!int ' 5 '\n", "!!int '+'\n", "!!float '1:x'\n", "!!float 1_0\n", "!!int 1_0\n", "!!int '5_'\n", "!!int 'é'\n", "!!int '٣'\n", "!!float '٣.٥'\n", "!!float 1e400\n", "!!float nan\n", "!!float infinity\n",
    "a:\tb\n", "a: \tb\n", "a:\n\tb: 1\n", "\ta: 1\n", "a: b\t\n", "a: b\t# c\n", "a: b \t # c\n", "a\t: b\n", "-\ta\n", "- \ta\n", "[a,\tb]\n", "[\ta]\n", "{a:\tb}\n", "a: |\n\tb\n", "a: |\n  b\n\tc\n", "a: >\n  b\n  \tc\n  d\n", "a:\n  b\tc\n", "a: 'b'\t\n", "a: [b]\t\n", "\t\n", "\t# c\n", "a: 1\n\t\nb: 2\n", "a: 1\n \t\nb: 2\n", "a: x\n\ty\n", "a: |\t\n  b\n", "a: |\t# c\n  b\n", "---\ta\n", "--- \ta\n", "&x\ta\n", "!!str\ta\n",
    "a: b\r\nc: d\r\n", "a: b\rc: d\r", "a: |\r\n  x\r\n  y\r\n", "a: >\r\n  x\r\n\r\n  y\r\n", "a: 'x\r\n  y'\r\n", "a: x\r\n  y\r\n", "a: b\x85c: d\x85", "a: b\u2028c: d\u2028", "a: |\n  x\u2028  y\n", "a: x\u2028  y\n", "a: x\x85  y\n", "a: x\n\u2028  y\n", "# c\x85a: 1\n", "# c\u2029a: 1\n", "a: \"x\\\r\n  y\"\n", "a: >\n  x\u2028  y\n", "a: >\n  x\n\u2028  y\n",
    "\ufeffa: 1\n", "\ufeff\n", "\ufeff# c\na: 1\n", "a: 1\n\ufeffb: 2\n", "a: \ufeffb\n", "\ufeff---\na: 1\n", "\ufeff%YAML 1.1\n---\na\n", "\ufeff\ufeffa: 1\n", "\ufeff- a\n- b\n", "\ufeffa:\n  b: 1\n",
    "a: \x00", "a: x\x00\nb: 1\n", "a: \x07\n", "a: \x1b[31m\n", "# \x01\n", "a: \x7f\n", "a: \x80\n", "a: \xa0\n", "a: \ue000\n", "a: \ufffd\n", "a: \ufffe\n", "a: \uffff\n", "a: \U0010ffff\n", "é: ü\n", "漢: 字\n", "😀: 1\n", "a: é # ü\nb: [\n", "é: [ü\n", "漢字: }\n", "😀: 'x\n",
    "a: |x\n", "a: |2x\n", "a: |0\n", "a: |10\n", "a: |+-\n", "a: |++\n", "a: | # c\n  x\n", "a: |# c\n  x\n", "a: |-# c\n  x\n", "a: |- # c\n  x\n", "a: | x\n", "- |\n x\n- >\n y\n", "|\n x\n", "|\nx\n", ">\nx\n\ny\n", "|1\n x\n", "|2\n x\n", "- |1\n  x\n", "a: |1\n x\n", "a: |1\n  x\n", "a: |3\n  x\n", "a: |\n   x\n  y\n", "a: |\n    \n  x\n", "a: |\n\n\n  x\nb: 1\n", "a: |\n# c\n  x\n", "a: |\n  x\n# c\n", "a: |\n  x\n# c\nb: 1\n", "a: |\n  x\n # c\nb: 1\n", "a: |\nb: 1\n", "a: |+\n\n\nb: 1\n", "a: >+\n\n\nb: 1\n", "a: |-\n\n\nb: 1\n", "[|\n x]\n", "{a: |\n x}\n", "a: >-\n  x\n  y\n\n  z\n", "a:\n  b: |\n    x\n   y\n", "a:\n  - |\n    x\n  - >-\n    y\n    z\n", "a: |\n  x\n\n\n\n", "a: |\n  x\n    ", "a: |+\n  x\n    ", "a: |\n  x\n  ", "a: >\n  x\n  ", "a: >\n\n  x\n", "a: >\n  x\n\n   y\n  z\n",
    "key: value\n bad\n", "a: 1\n  b: 2\n", "a:\n  b: 1\n   c: 2\n", "a: 1\nb\n", "a: 1\nb\nc: 2\n", "a\nb: 1\n", "a: 1\n\"b\"\n", "- a\n-b\n", "- a\n -b\n", "- a\n - b\n", "-a\n", "- a\n  - b\n", "a: [1]\n 2\n", "a: [1] 2\n", "a: {b: 1} c\n", "a: 'b\n", "a: \"b\nc: d\n", "a: `x`\n", "a: @x\n", "@a: b\n", "`a: b\n", "a: %x\n", "%a: b\n", "a: *\n", "a: &\n", "a: !\n", "a: !!\n", "a: ,\n", "a: , b\n", ", a\n", "[a b: c]\n", "[a]: b: c\n", "{a: b}{c: d}\n", "[a][b]\n", "[a] [b]\n", "a: 'b''\n", "a: b'c\n", "a: {{ x }}\n", "a: {{x}}: b\n", "{{ x }}\n", "a: [{{ x }}]\n", "a: {% x %}\n", "a: x: y\n", "a: 'x': y\n", "? a\n  b\n: c\n", "?a\n: b\n", "? a\n :b\n", "- ? a\n  : b\n", "a: ? b\n", "a: - b\n", "- a: - b\n", "- a:\n  - b\n  c: d\n", "- a:\n    - b\n  c: d\n", "a:\n  - b\n c: d\n", "a:\n- b\n c\n", "a:\n- b\n- c: d\ne: f\n",
    "a" * 1100 + ": b\n", "'" + "a" * 1100 + "': b\n", "[" + "a" * 1030 + ": b]\n", "? " + "a" * 1100 + "\n: b\n", "a: " + "b" * 3000 + "\n", "a: " + "b " * 700 + "\n", "[" * 40 + "]" * 40, "- " * 40 + "a\n",
]

CONFIGS = [
    """# settings of an agent
agent:
  system_template: |
    You are a helpful assistant that works in a shell.
  instance_template: |
    Solve this: {{task}}

    <system_information>
    {{system}} {{release}} {{version}} {{machine}}
    </system_information>

    {%- if system == "Darwin" %}
    Use `sed -i ''`.
    {%- endif %}
    ```
  step_limit: 250
  cost_limit: 3.
  mode: confirm
  whitelist_actions: []
environment:
  env:
    PAGER: cat
    MANPAGER: cat
    LESS: -R
    PIP_PROGRESS_BAR: 'off'
    TQDM_DISABLE: '1'
model:
  observation_template: |
    {%- if output.output | length < 10000 -%}
    {
      "returncode": {{ output.returncode }},
      "output": {{ output.output | tojson }}
      {%- if output.exception_info %}, "exception_info": {{ output.exception_info | tojson }}{% endif %}
    }
    {%- else -%}
    {
      "output_head": {{ output.output[:5000] | tojson }},
      "elided_chars": {{ output.output | length - 10000 }}
    }
    {%- endif -%}
  format_error_template: |
    Tool call error:

    <error>
    {{error}}
    </error>

    ```mswea_bash_command
    <command>
    ```
  model_kwargs:
    drop_params: true
""",
    """environment:
  cwd: "/testbed"
  timeout: 60
  environment_class: docker
  interpreter: ["bash", "-c"]
  env: {PAGER: cat, BASH_ENV: /root/.bashrc}
  run_args:
    - "--rm"
    - --cpus=20
    - --memory=60g
    - --network
    - none
    - --cap-drop=SYS_PTRACE
model:
  model_name: "anthropic/claude-sonnet-4-5-20250929"
  model_kwargs:
    drop_params: true
    temperature: 0.0
    parallel_tool_calls: true
  cost_tracking: ignore_errors
  set_cache_control: default_end
run:
  env_startup_command: |-
    cd /testbed && source "$HOME/.bashrc"
""",
    """agent:
  step_limit: 0
  cost_limit: 0.
  wall_time_limit_seconds: 21_600
  action_regex: ```mswea_bash_command\\s*\\n(.*?)\\n```
model:
  action_regex: "<action>\\\\n?(.*?)\\\\n?</action>"
  multimodal_regex: '(?s)<CONTENT_TYPE>(.+?)</CONTENT_TYPE>(.+?)'
  model_class: openrouter
  model_name: minimax/minimax-m2
  litellm_model_registry: ~
""",
    """model:
  model_class: litellm_response
  model_kwargs: &kwargs
    reasoning:
      effort: high
      summary: auto
    api_base: http://127.0.0.1:8000/v1
    extra_headers: {X-Title: "a: b", 'X-No': no}
    timeout: 1:30
    stop: ["\\n\\n", '```', "</end>"]
other:
  model_kwargs:
    <<: *kwargs
    api_base: http://127.0.0.1:9000/v1
""",
    """agent:
    system_template: >-
        One line that
        is folded,

        and a second
          - kept
          - list
    instance_template: "{{task}}\\n\\nBe \\"brief\\".\\
        \\  No newline."
    mode: yolo
    confirm_exit: off
    whitelist_actions:
    - ^ls\\b
    - '^cat '
    -   "^git (status|diff)"
""",
    """deployment_extra_env: null
runtime_timeout: 3600.0
startup_timeout: 600.
swerex_modal:
    install_pipx: yes
    modal_sandbox_kwargs: {cpu: 4.0, region: [us-east, eu-west]}
portkey: {model_name: "@openai/gpt-5-mini", provider: '@openai'}
""",
    "agent:\n  instance_template: |\n    <pr>\n    {{task}}\n    </pr>\n\n    # Steps\n\n    1. Look: `ls -la`\n    2. Edit with\n\n       ```bash\n       cat <<'EOF' > x.py\n       print(\"a: b\")\n       EOF\n       ```\n\n    3. Submit with `echo DONE`\n  step_limit: 5",
    "model:\n  format_error_template: |\n    Please send one command:\n\n    ```\n    ls\n    ```",
    "agent:\n  system_template: |\n\n    starts empty\n\n\n  instance_template: |+\n    keeps all\n\n\nmodel: {}\nenvironment:\n",
    "tools:\n  bundles:\n    - path: tools/registry\n    - path: tools/review_on_submit_m\n  registry_variables:\n    USE_FILEMAP: 'true'\n    SUBMIT_REVIEW_MESSAGES:\n      - |\n        Thank you.\n\n        1. Run it again.\n        <diff>\n        {{diff}}\n        </diff>\n  enable_bash_tool: true\n  parse_function:\n    type: function_calling\nhistory_processors:\n  - type: cache_control\n    last_n_messages: 2\n",
    "max_observation_length: 10_000\ntools:\n  y:\n    signature: y <arg>\n    docstring: a\n  n: 3\n",
]

BASES = [
    "a: b\nc:\n  d: 1\n  e: [x, y, {z: w}]\nf: |\n  text\n  more\ng: 'q'\n",
    "- a\n- b: c\n  d: e\n- - f\n  - g\n- >-\n  h\n\n  i\n",
    "x: &a {p: 1, q: [2, 3]}\ny: *a\nz:\n  <<: *a\n  q: \"r\\n\"\n",
    "key: value # note\n# line\nother: \"two words\"\nlast:\n- 1\n- 2.5\n- yes\n",
    "? complex\n: - v\n  - !!str 5\n? [k]\n: {m: n}\n",
    "a: plain text\n  goes on\n\n  here\nb: {k: 'v', l: [1, 2]}\n",
    CONFIGS[0][:300],
    CONFIGS[1],
]


def tagged(value, seen=()):
    """The value as JSON. Texts, booleans, null and lists stay; other types become maps of one key, the type."""
    if id(value) in seen:
        return {"recursive": True}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        # JSON readers refuse halves of surrogate pairs
        return {"surrogates": True} if any("\ud800" <= char <= "\udfff" for char in value) else value
    if isinstance(value, int):
        return {"int": str(value)}
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, datetime.datetime):
        return {"datetime": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [tagged(item, (*seen, id(value))) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [tagged(item, (*seen, id(value))) for item in value]}
    if isinstance(value, set):
        return {"set": sorted((tagged(item) for item in value), key=json.dumps)}
    if isinstance(value, dict):
        return {"map": [[tagged(k), tagged(v, (*seen, id(value)))] for k, v in value.items()]}
    raise TypeError(type(value))


def load(document):
    # as `Path.read_text` does
    text = io.TextIOWrapper(io.BytesIO(document.encode()), encoding="utf-8").read()
    try:
        return tagged(yaml.safe_load(text))
    except Exception as error:  # also ValueError, KeyError and the like from Python itself
        mark = getattr(error, "problem_mark", None)
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        if isinstance(error, yaml.reader.ReaderError):
            before = text[: error.position]
            line = before.count("\n") + 1
            column = len(before) - before.rfind("\n")
        return {"error": type(error).__name__, "line": line, "column": column}


def documents():
    for scalar in SCALARS + SPACED:
        yield "plain", f"a: {scalar}\n"
        yield "plain in flow", f"[{scalar}, x]\n"
    for scalar in SCALARS + SPACED:
        yield "plain key", f"{scalar}: 1\n"
        yield "plain root", scalar
    for scalar in QUOTED:
        yield "quoted", f"a: {scalar}\n"
        yield "quoted in flow", f"{{k: {scalar}, l: [{scalar}]}}"
        yield "quoted root", scalar
        yield "quoted key", f"{scalar}: 1\n"
    headers = ["", "-", "+", "1", "2", "4", "-2", "2-", "+2", "2+"]
    for style, header, body in itertools.product("|>", headers, BODIES):
        lines = body.split("\n")
        text = "\n".join("  " + line if line else "" for line in lines)
        yield "block", f"a: {style}{header}\n{text}"
        if header in ("", "-", "+", "2"):
            yield "block with more", f"a:\n- {style}{header}\n{text}\nb: 1\n"
    for document in STRUCTURES:
        yield "structure", document
        if document.endswith("\n"):
            yield "structure without the last line end", document[:-1]
        indented = "".join(f"  {line}\n" for line in document.split("\n")[:-1])
        if indented:
            yield "structure indented", f"top:\n{indented}"
    for document in CONFIGS:
        yield "config", document
        yield "config", document.rstrip("\n")
        yield "config", document.replace("\n", "\r\n")
    random.seed(20)
    pieces = list(" \n:-#[]{},'\"|>&*!?%@`~=<\\\t") + ["  ", ": ", "- ", "\n  ", "\n\n", " #", "a", "1", "---\n", "<<: ", "é", "? ", "''"]
    for _ in range(900):
        document = random.choice(BASES)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(document) + 1)
            match random.randrange(4):
                case 0:
                    document = document[:at] + random.choice(pieces) + document[at:]
                case 1:
                    document = document[:at] + document[at + random.randint(1, 3) :]
                case 2:
                    document = document[:at] + random.choice(pieces) + document[at + 1 :]
                case _:
                    start, end = sorted((at, random.randrange(len(document) + 1)))
                    document = document[:at] + document[start : min(end, start + 20)] + document[at:]
        yield "changed at random", document
    for _ in range(900):
        yield "random", "".join(random.choice(pieces + ["b", "c: ", "\n- "]) for _ in range(random.randint(2, 14)))


def main():
    seen = set()
    cases = []
    for group, document in documents():
        if document not in seen:
            seen.add(document)
            cases.append([group, document, load(document)])
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")


main()

#!/usr/bin/env python3
"""Writes the results of the real Jinja2 for many templates, for the tests of `host/template/tests`.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install jinja2
    /tmp/v/bin/python tests/tooling/jinja_vectors.py > host/template/tests/vectors.json

Each vector has `template`, `vars`, and either `expected` or `error: true`.
"""

import json
import sys

from jinja2 import Environment, StrictUndefined

OUTPUTS = {
    "plain": {"output": "hi\n", "returncode": 0, "exception_info": ""},
    "empty": {"output": "", "returncode": 0, "exception_info": ""},
    "odd": {
        "output": "é😀<&'\"\t\\\x7f\x01\x1b[31m\r\nend",
        "returncode": -1,
        "exception_info": "E <x>",
    },
    "long": {"output": "汉ab" * 40, "returncode": 2, "exception_info": ""},
}

OBSERVATION = """\
{% if output.exception_info -%}
<problem>{{ output.exception_info }}</problem>
{% endif -%}
<code>{{ output.returncode }}</code>
{% if output.output | length < 100 -%}
<out>
{{ output.output -}}
</out>
{%- else -%}
<note>
{{ output.output | length - 100 }} left out
</note>
{%- set left = output.output | length - 100 %}
<head>{{ output.output[:50] }}</head><left>{{ left }}</left><tail>{{ output.output[-50:] }}</tail>
{%- endif -%}
"""

OBSERVATION_JSON = """\
{
  "code": {{ output.returncode }},
{%- if output.output|length < 100 %}
  "out": {{ output.output | tojson }}
{%- else %}
  "head": {{ output.output[:50] | tojson }},
  "tail": {{ output.output[- 100 // 2:] | tojson }}
{%- endif %}
{%- if output.exception_info %}, "problem": {{ output.exception_info | tojson }}{% endif %}
}"""

DATA = {
    "n": 7,
    "neg": -7,
    "big": 18446744073709551615,
    "f": 2.5,
    "whole": 3.0,
    "tiny": 1.5e-07,
    "huge": 1e20,
    "cost": 0.30000000000000004,
    "s": "Hello World",
    "empty": "",
    "uni": "naïve 漢字 😀",
    "html": "<a href=\"x\">'&'</a>",
    "spaces": "  a  b \t c\n",
    "lines": "one\ntwo\r\nthree\x0bfour\u2028five\n",
    "path": "/usr/local/lib/x.py",
    "csv": "a,b,,c",
    "num": " 42 ",
    "bad": "4x2",
    "fl": "3.75",
    "yes": True,
    "no": False,
    "nothing": None,
    "list": [3, 1, 2],
    "mixed": [1, 2.0, 1e-07, 1e20, "a'b", 'c"d', None, True, [], {}],
    "words": ["pear", "Apple", "fig"],
    "d": {"b": 1, "a": {"z": [1, {"q": "é"}], "y": None}, "é": 1e16},
    "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}],
}

SNIPPETS = r"""
{{ s }}|{{ n }}|{{ f }}|{{ whole }}
{{ tiny }} {{ huge }} {{ cost }} {{ big }} {{ neg }}
{{ mixed }}
{{ d }}
{{ [tiny, huge] }} {{ (1,) }} {{ (1, 2.5) }} {{ () }}
{{ yes }} {{ no }} {{ nothing }}
{{ n / 2 }} {{ n // 2 }} {{ neg // 2 }} {{ n % 3 }} {{ neg % 3 }} {{ n ** 2 }} {{ 2 ** -1 }}
{{ 10 / 5 }} {{ 1e3 }} {{ 1.0 * 3 }} {{ 7 // 2.0 }} {{ 0.1 + 0.2 }}
{{ n + f }} {{ n - whole }} {{ n * f }}
{{ s[:5] }} {{ s[-5:] }} {{ s[::-1] }} {{ s[- n // 2:] }} {{ s[2:8:2] }} {{ s[0] }} {{ s[-1] }}
{{ uni[:3] }} {{ uni|length }} {{ uni[-1] }} {{ uni|upper }} {{ uni|title }}
{{ list[0] }} {{ list[-1] }} {{ list[1:] }} {{ list|length }} {{ list|sort }} {{ list|sort(reverse=true) }}
{{ list|first }} {{ list|last }} {{ list|sum }} {{ list|max }} {{ list|min }} {{ list|join(", ") }} {{ list|join }}
{{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ words|map("upper")|join("-") }} {{ words|map("length")|list }}
{{ mixed|join("|") }}
{{ rows|map(attribute="k")|join(",") }} {{ rows|selectattr("v", "gt", 1)|map(attribute="v")|list }} {{ rows|sum(attribute="v") }}
{% for g in rows|groupby("k") %}{{ g.grouper }}={{ g.list|length }};{% endfor %}
{{ rows|rejectattr("k", "equalto", "x")|list }}
{{ d.b }} {{ d["a"]["z"][1].q }} {{ d.get("zz") }} {{ d.get("zz", 5) }} {{ d.keys()|list }} {{ d.values()|list|length }}
{% for k, v in d.items() %}{{ k }}:{{ v }};{% endfor %}
{% for k in d %}{{ k }},{% endfor %} {{ d|length }} {{ "b" in d }} {{ "q" not in d }}
{{ d|dictsort|length }} {% for k, v in d.b|default({})|dictsort if false %}{% endfor %}
{{ s|tojson }} {{ html|tojson }} {{ uni|tojson }} {{ nothing|tojson }} {{ yes|tojson }} {{ n|tojson }}
{{ mixed|tojson }}
{{ d|tojson }}
{{ d|tojson(indent=2) }}
{{ d|tojson(2) }}
{{ [[], {}, [[]]]|tojson(indent=2) }} {{ {}|tojson(indent=4) }}
{{ [1, 2]|tojson(indent=0) }}
{{ tiny|tojson }} {{ huge|tojson }} {{ whole|tojson }} {{ big|tojson }} {{ cost|tojson }}
{{ {2: "b", 1: "a"}|tojson }} {{ {"b": (1, 2)}|tojson }}
{{ missing|tojson }}
{{ "\x7f\x00\u2028"|tojson }} {{ lines|tojson }}
{{ num|int }} {{ bad|int }} {{ fl|int }} {{ empty|int }} {{ nothing|int }} {{ f|int }} {{ yes|int }} {{ bad|int(9) }} {{ bad|int(default=8) }}
{{ "ff"|int(base=16) }} {{ "0x1F"|int(base=16) }} {{ "1_000"|int }} {{ "-3.9"|int }} {{ "1e3"|int }} {{ "0b11"|int(0, 2) }} {{ list|int }} {{ "inf"|int(7) }}
{{ num|float }} {{ bad|float }} {{ fl|float }} {{ empty|float }} {{ nothing|float }} {{ n|float }} {{ bad|float(1.5) }} {{ yes|float }} {{ "1_0.5"|float }} {{ list|float }}
{{ missing|int }}
{{ missing|float }}
{{ s|replace("l", "L") }} {{ s|replace("l", "L", 1) }} {{ s|replace("l", "L", count=2) }} {{ s|replace("zz", "") }} {{ n|replace(7, 8) }} {{ s|replace("", "-") }} {{ s|replace("l", "L", 0) }}
{{ missing|replace("a", "b") }}
{{ s.replace("o", "0") }} {{ s.replace("o", "0", 1) }} {{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }}
{{ s.split() }} {{ s.split("o") }} {{ s.split("o", 1) }} {{ spaces.split() }} {{ spaces.split(None, 1) }} {{ spaces.split(None, 0) }} {{ empty.split() }} {{ empty.split(",") }} {{ csv.split(",") }} {{ csv.split(",", 2) }} {{ csv.split(",", maxsplit=1) }} {{ csv.split(sep=",") }}
{{ spaces.rsplit() }} {{ spaces.rsplit(None, 1) }} {{ csv.rsplit(",") }} {{ csv.rsplit(",", 1) }} {{ path.rsplit("/", 1)[-1] }} {{ path.rsplit("/", maxsplit=2) }} {{ csv.rsplit(",", 0) }}
{{ lines.splitlines() }} {{ lines.splitlines(true) }} {{ empty.splitlines() }} {{ lines.splitlines(keepends=True)|length }}
{{ s.index("o") }} {{ s.rindex("o") }} {{ s.find("zz") }} {{ s.rfind("o") }} {{ uni.index("漢") }} {{ s.count("l") }}
{{ s.index("zz") }}
{{ s.partition(" ") }} {{ s.partition("zz") }} {{ s.rpartition("o") }} {{ s.rpartition("zz") }}
{{ path.removeprefix("/usr") }} {{ path.removesuffix(".py") }} {{ path.removeprefix("zz") }} {{ path.removesuffix("") }}
{{ "42".zfill(5) }} {{ "-42".zfill(5) }} {{ "+4".zfill(4) }} {{ "abc".zfill(2) }} {{ "".zfill(3) }}
[{{ "ab".ljust(5) }}] [{{ "ab".rjust(5, ".") }}] [{{ "ab".center(5) }}] [{{ "abc".center(6, "*") }}] [{{ "ab".center(7, "é") }}] [{{ "abcdef".center(3) }}] [{{ "ab".ljust(-1) }}]
[{{ spaces.strip() }}] [{{ spaces.lstrip() }}] [{{ spaces.rstrip() }}] [{{ "xxaxx".strip("x") }}] [{{ "abcba".lstrip("ab") }}] [{{ spaces|trim }}]
{{ s.startswith("He") }} {{ s.endswith(("d", "x")) }} {{ "12".isdigit() }} {{ "ab1".isalnum() }} {{ "-".join(words) }}
{{ "%s is %d, %.2f, %5s|%-5s|%05d|%x|%%"|format("a", 3, 2.5, "b", "c", 42, 255) }}
{{ "%s %s"|format(tiny, whole) }} {{ "%.4f"|format(cost) }} {{ "%e"|format(huge) }}
{{ "{} {:>5} {:.2f} {a}".format("x", "y", 2.5, a=1) }} {{ "{0}-{0}-{1}".format(1, 2) }} {{ "{:,}".format(1234567) }}
{{ s ~ n ~ f ~ nothing ~ yes }} {{ "a" ~ [1, "b"] }}
{{ n == 7 }} {{ n != 7 }} {{ n < 8 }} {{ n >= 7 and f < 3 }} {{ not n }} {{ n or 1 }} {{ empty or "alt" }} {{ n and s }} {{ 1 < n < 9 }}
{{ "a" if n > 3 else "b" }} {{ "x" if no else "y" }} [{{ "q" if no }}]
{{ missing }}
{{ missing is defined }} {{ s is defined }} {{ missing|default("dd") }} {{ empty|default("dd", true) }} {{ nothing|default("dd") }} {{ nothing is none }}
{{ d.missing }}
{{ d.missing is defined }} {{ d.missing|default(3) }}
{{ d.missing.deeper }}
{% if missing %}a{% endif %}
{% for x in missing %}a{% endfor %}
{{ missing ~ "a" }}
{{ "a" + missing }}
{{ missing == 1 }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby(7) }} {{ s is string }} {{ n is number }} {{ list is iterable }} {{ d is mapping }} {{ list is sequence }} {{ n is in list }} {{ 3 in list }} {{ "World" in s }} {{ f is float }} {{ n is integer }} {{ yes is boolean }}
{% for x in list %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.length }}/{{ loop.first }}/{{ loop.last }}/{{ loop.revindex }}:{{ x }} {% else %}none{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %} {% for x in list if x > 1 %}{{ x }}{% endfor %} {% for a, b in [(1, 2), (3, 4)] %}{{ a }}-{{ b }};{% endfor %}
{% for x in range(3) %}{{ x }}{% endfor %} {{ range(2, 8, 3)|list }} {% for x in list %}{{ loop.cycle("a", "b") }}{% endfor %}
{% set x = 5 %}{{ x }} {% set y %}block {{ n }}{% endset %}{{ y }} {% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set ns = namespace(t=0) %}{% for x in list %}{% set ns.t = ns.t + x %}{% endfor %}{{ ns.t }}
{% set x = 1 %}{% for i in list %}{% set x = i %}{% endfor %}{{ x }}
{% macro m(a, b="q") %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}
{% with z = 9 %}{{ z }}{% endwith %} {% filter upper %}abc{% endfilter %} {% raw %}{{ x }}{% endraw %} {# note #}end
{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}
{%- if yes -%}   tight   {%- endif -%}
a {{- " b " -}} c {%- set q = 1 -%} d
{{ s|upper }} {{ s|lower }} {{ s|capitalize }} {{ s|title }} {{ s|reverse }} {{ s|length }} {{ s|count }} {{ s|wordcount }}
{{ s|truncate(8) }} {{ s|truncate(8, true) }} {{ s|truncate(8, true, "", leeway=0) }} {{ uni|truncate(9, leeway=0) }} {{ s|truncate(length=7, killwords=true, end="…", leeway=0) }}|
{{ "a\nb\n\nc"|indent }}|{{ "a\nb"|indent(2, true) }}|{{ "a\nb"|indent(width=3, first=true) }}
{{ f|round }} {{ cost|round(2) }} {{ 2.675|round(2) }} {{ 42.55|round(1, "floor") }} {{ n|round }} {{ neg|abs }} {{ 3.5|round|int }}
{{ list|batch(2)|list }} {{ list|slice(2)|list }} {{ [1,1,2]|unique|list }} {{ list|reverse|list }} {{ "abc"|list }}
{{ n|string ~ "!" }} {{ tiny|string }} {{ mixed|string }} {{ d|items|list|length }} {{ html|e }} {{ html|safe }} {{ html|striptags }}
{{ [1, 2] + [3] }} {{ [0] * 3 }} {{ "ab" * 3 }} {{ {"a": 1, "b": 2.0} }} {{ {"x": tiny} }}
{{ ["\u200b\ufeff\xa0\u3000\ue000", "\x1f\x7f\x85\xad", "😀漢é\u0301"] }}
{{ 'it\'s' }} {{ ["it's", 'say "hi"', "both ' and \""] }} {{ ["tab\t", "nl\n", "bs\\", "é", "\x07"] }}
{{ dict(a=1, b=2) }} {{ namespace(a=3).a }}
{{ 1_000 }} {{ 0x1f }} {{ 1.5e3 }} {{ -n }} {{ --n }}
{{ n|abs }} {{ words|map("first")|join }} {{ words|select("in", ["fig"])|list }}
{{ nosuch() }}
{{ s|nosuchfilter }}
{{ s is nosuchtest }}
{{ s.nosuch() }}
{{ unclosed
{% if x %}never closed
{% endfor %}
{{ 1 + }}
{{ "a" - 1 }}
{{ n / 0 }}
{{ list[10] }}
{{ list[10] is defined }}
{% include "x" %}
"""


def main():
    environment = Environment(undefined=StrictUndefined)
    cases = []
    for name, output in OUTPUTS.items():
        for template in (OBSERVATION, OBSERVATION_JSON):
            cases.append((template, {"output": output}))
    cases += [(line, DATA) for line in SNIPPETS.strip("\n").split("\n")]
    cases += [
        ("a\r\nb\rc\n", {}),
        ("one\n", {}),
        ("two\n\n", {}),
        ("\n", {}),
        ("", {}),
        ("{{ x }}\n", {"x": "v\r\n"}),
        ("{% if true %}\n  a\n{% endif %}\nb", {}),
        ("  {% if true %}\n  a\n  {% endif %}\nb\n", {}),
        ("{% for x in [1, 2] %}\n- {{ x }}\n{% endfor %}\n", {}),
        ("{#- c -#}\n x", {}),
        ("{{ a }}{{ b }}", {"a": "{{ b }}", "b": "{% x %}"}),
    ]
    vectors = []
    for template, data in cases:
        vector = {"template": template}
        if data is not DATA:
            vector["vars"] = data
        try:
            vector["expected"] = environment.from_string(template).render(**data)
        except Exception as error:  # any error of Jinja2 or Python
            vector["error"] = f"{type(error).__name__}: {error}"
        vectors.append(vector)
    json.dump({"vars": DATA, "vectors": vectors}, sys.stdout, indent=1)
    print()


main()

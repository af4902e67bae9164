#!/usr/bin/env python3
"""Writes the results of Jinja2 for many templates, as JSON on stdout.

The environment is that of mini-swe-agent: `StrictUndefined`, otherwise the defaults. The file has named
sets of variables, and cases `[group, template, name of the set or the set itself, result]`. A result is a
text, or `{"error": CLASS, "line": N}` with the line of the template (from 1; null where there is none).
"""

import itertools
import json
import random
import sys
import traceback

from jinja2 import Environment, StrictUndefined, TemplateError, TemplateSyntaxError

DATA = {
    "n": 7, "neg": -7, "zero": 0, "one": 1, "big": 9007199254740993, "u64": 18446744073709551615, "f": 2.5, "whole": 3.0, "tiny": 1.5e-07, "huge": 1e20,
    "cost": 0.30000000000000004, "third": 1 / 3, "minus": -0.0,
    "s": "Hello World", "empty": "", "uni": "naïve 漢字 😀", "html": "<a href=\"x\">'&'</a>", "spaces": "  a  b \t c\n",
    "lines": "one\ntwo\r\nthree\x0bfour\u2028five\n", "path": "/usr/local/lib/x.py", "csv": "a,b,,c", "num": " 42 ", "bad": "4x2", "fl": "3.75",
    "text": "The quick brown fox jumps over the lazy dog, and then\nit sleeps for a-very-long-hyphenated-word of time.\n\nNew paragraph here.",
    "quotes": "it's \"so\"", "single": "it's", "esc": "tab\there\\back\x07\x1b[0m\x7f", "code": "def f():\n    return 1\n\nx = f()\n",
    "jinjaish": "{{ x }} {% if %} {# c #}",
    "yes": True, "no": False, "nothing": None,
    "list": [3, 1, 2], "nested": [[1, 2], [3, [4, "x"]], []], "mixed": [1, 2.0, 1e-07, "a'b", 'c"d', None, True, [], {}], "words": ["pear", "Apple", "fig", "apple", "Fig"],
    "strs": ["b", "a", "c"], "floats": [1.5, 0.1, 1e16], "none_list": [None, 1, None], "elist": [], "edict": {},
    "d": {"b": 1, "a": {"z": [1, {"q": "é"}], "y": None}, "é": 1e16, "items": "own"}, "flat": {"b": 2, "a": 1, "C": 3},
    "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": 3}, {"k": "Y", "v": None}],
    "people": [{"name": "Bo", "age": 3, "tags": ["a"]}, {"name": "al", "age": 30, "tags": []}, {"name": "Cy", "age": 3, "tags": ["b", "a"]}],
    "output": {"output": "line 1\nline <2>\n", "returncode": 0, "exception_info": "", "extra": {"exception_type": "T"}},
    "actions": [{"command": "ls", "tool_call_id": "c1"}, {"command": "pwd", "tool_call_id": "c2"}],
    "system": "Linux", "release": "6.1.0", "version": "#1 SMP", "machine": "x86_64", "task": "Fix the bug\nin x.py", "cwd": "/testbed", "step_limit": 0, "cost_limit": 3.0, "n_model_calls": 4, "model_cost": 0.0123, "elapsed_seconds": 12, "finish_reason": None,
}

OUTPUTS = {
    "short": {"output": "hi\n", "returncode": 0, "exception_info": ""},
    "none": {"output": "", "returncode": 0, "exception_info": ""},
    "odd": {"output": "é😀<&'\"\t\\\x7f\x01\x1b[31m\r\nend", "returncode": -1, "exception_info": "E <x> 'y'"},
    "edge": {"output": "a" * 99 + "\n", "returncode": 1, "exception_info": ""},
    "edge2": {"output": "漢" * 101, "returncode": 124, "exception_info": "timed out"},
    "long": {"output": "汉ab\n" * 60, "returncode": 2, "exception_info": ""},
    "jinja": {"output": "{{ x }}{% raw %}{# no #}\n", "returncode": 0, "exception_info": ""},
    "blank": {"output": " \n\t\n", "returncode": 0, "exception_info": " "},
}

OBSERVATIONS = [
    """\
{%- if output.output | length < 100 -%}
{
  "returncode": {{ output.returncode }},
  "output": {{ output.output | tojson }}
  {%- if output.exception_info %}, "exception_info": {{ output.exception_info | tojson }}{% endif %}
}
{%- else -%}
{
  "returncode": {{ output.returncode }},
  "output_head": {{ output.output[:50] | tojson }},
  "output_tail": {{ output.output[-50:] | tojson }},
  "elided_chars": {{ output.output | length - 100 }}
  {%- if output.exception_info %}, "exception_info": {{ output.exception_info | tojson }}{% endif %}
}
{%- endif -%}
""",
    """\
{% if output.exception_info -%}
<exception>{{output.exception_info}}</exception>
{% endif -%}
<returncode>{{output.returncode}}</returncode>
{% if output.output | length < 100 -%}
<output>
{{ output.output -}}
</output>
{%- else -%}
<warning>
Too long.
</warning>
{%- set elided = output.output | length - 100 -%}
<head>
{{ output.output[:50] }}
</head>
<elided>
{{ elided }} characters
</elided>
<tail>
{{ output.output[-50:] }}
</tail>
{%- endif -%}
""",
    "OBSERVATION:\n{{ output.output.strip() or '(none)' }}\n{% for line in output.output.splitlines()[:3] %}{{ loop.index }}: {{ line }}\n{% endfor %}",
    "{{ output.output | truncate(40, true, '…', 0) }}|{{ output.output | indent(4) }}|{{ output | tojson(indent=2) }}",
    "{{ output }}",
    "{% set limit = 100 %}{% if output.output|length > limit %}{{ output.output[:limit // 2] }}\n[... {{ output.output|length - limit }} ...]\n{{ output.output[- limit // 2:] }}{% else %}{{ output.output }}{% endif %}",
    "{% set out = output.output.split('\n') %}{{ out | length }} lines{% if out | length > 3 %}\n{{ out[:2] | join('\n') }}\n...\n{{ out[-2:] | join('\n') }}{% endif %}",
    "{{ 'ok' if output.returncode == 0 else 'failed (%d)' % output.returncode }}",
    "{{ 'ok' if output.returncode == 0 else 'failed (' ~ output.returncode ~ ')' }} {{ output.extra is defined }} {{ output.get('extra', {}) }}",
    "{{ output.extra.exception_type }}",
]

PROMPTS = [
    "You solve tasks.\n{{ task }}\n\n## Rules\n{% if system == 'Darwin' -%}\nmac\n{%- else -%}\nother\n{%- endif %}\nend\n",
    "<system_information>\n{{system}} {{release}} {{version}} {{machine}}\n</system_information>\n",
    "{{ task | trim }}{% if step_limit %} ({{ n_model_calls }}/{{ step_limit }}){% endif %} ${{ '%.2f' | format(model_cost) }} of {{ cost_limit }}",
    "{% for action in actions %}\n{{ loop.index }}. {{ action.command }}{% if not loop.last %},{% endif %}\n{% endfor %}",
    "{% for action in actions -%}\n  {{ action.command }}\n{%- endfor %}",
    "Tool call error:\n\n<error>\n{{error}}\n</error>\n",
    "{% if finish_reason == 'length' %}cut{% elif finish_reason is none %}unknown{% else %}{{ finish_reason }}{% endif %}",
    "{% if has_tool_calls %}a{% endif %}",
    "{% if actions|length == 0 %}none{% elif actions|length > 1 %}{{ actions|length }} actions{% endif %}",
    "{{ model_cost }} {{ model_cost|round(3) }} {{ '%.4f'|format(model_cost) }} {{ '${:.2f}'.format(model_cost) }} {{ '$%.2f' % model_cost }}",
    "{# hidden #}{{ cwd }}{#- hidden -#}  \n {{ elapsed_seconds }}s",
    "{{ task }}\n",
    "{{ task }}\n\n",
    "\n\n{{ task }}",
    "{%- raw %}{{ not }}{% endraw -%}  x",
    "{{ now() }}",
    "{{ env.HOME }}",
    "{% include 'x' %}", "{% import 'x' as x %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% include 'x' ignore missing %}|ok", "{% include ['x', 'y'] %}",
    "{% block a %}in{% endblock %} {% block b scoped %}{{ n }}{% endblock b %}", "{% block a %}{{ self.a is defined }}{% endblock %}",
    "{% call m() %}x{% endcall %}", "{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(a) m(3) %}{{ a }}!{% endcall %}",
    "{% macro m(a, b='q', c=none) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m(1, 2, 3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }} {{ m.name }}", "{% macro f(n) %}{% if n > 1 %}{{ n * f(n - 1)|int }}{% else %}1{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% set m = 5 %}{% macro g() %}{{ m }}{% endmacro %}{{ g() }}", "{% macro m() %}  x  {% endmacro %}[{{ m()|trim }}] {{ m()|length }} {{ m() ~ 'y' }}",
]

# one expression each, rendered as `{{ ... }}`
EXPRESSIONS = r"""
s
n
f
whole
tiny
huge
cost
third
minus
big
u64
neg
yes
no
nothing
list
nested
mixed
words
floats
d
flat
rows
edict
elist
quotes
[quotes, single, esc, uni, html]
[tiny, huge, whole, minus, third]
()
(1,)
(1, 2)
(1, (2,), [3])
[(1, 2)]
{'a': (1,)}
{1: 'a', 'b': none, none: 1, true: 2.0}
{1: 1, 2.5: 2, (1, 2): 3}
['\n', '\t', '\\', '\x00', '\x7f', '\xa0', '\u200b', '😀', '\ue000']
'\u00e9\N{BULLET}\101'
'a' 'b'
"it's"
'say "x"'
'\'' ~ "\""
1_000
0x1F
0o17
0b101
1e3
1.5e3
1e-7
1.
.5
1e400
-1
--1
+1
- n
not n
not not n
n + 1
n - 10
n * 3
n / 2
n / 7
n // 2
neg // 2
n // -2
n % 3
neg % 3
n % -3
neg % -3
n ** 2
2 ** 10
2 ** 0.5
2 ** -1
2 ** 62
2 ** 63
2 ** 64
2 ** 100
2 ** 126
2 ** 127
2 ** 200
-2 ** 2
(-2) ** 3
2 ** 3 ** 2
neg ** 2
big * big
big * big * big
big + 1
u64 + 1
u64 * u64
9223372036854775807 + 1
123456789012345678901234567890
123456789012345678901234567890 + 1
n + f
n - whole
n * f
f // 1
neg // 2.0
7.5 % 2
-7.5 % 2
7 % 2.5
5 / 5
0 / 5
1 / 3
2 / 3
10 / 4 * 2
0.1 + 0.2
1e308 * 10
-1e308 * 10
1e16
1e15
123456789.123456789
1e22
1e21
100000000000000000000.0
n / 0
n // 0
n % 0
f / 0
f % 0
1.0 // 0
0 ** 0
0 ** -1
(-8) ** 0.5
'a' + 'b'
'a' + 1
1 + 'a'
'a' * 3
3 * 'a'
'a' * 0
'a' * -1
'a' * 1.5
[1] + [2]
[1] * 2
(1,) + (2,)
[1] + (2,)
[1] - [1]
{} + {}
'a' - 'b'
'a' / 2
none + 1
true + 1
true + true
true * 3
-true
yes // 2
yes / 2
+ yes
- 'a'
+ 'a'
'%s' % 'a'
'%s' % n
'%s and %s' % (n, s)
'%d' % f
'%d%%' % n
'%5d|%-5d|%05d|%+d' % (n, n, n, n)
'%x %X %o %e %g %c' % (255, 255, 8, f, f, 65)
'%.2f' % cost
'%10.3f|' % f
'%s' % (list,)
'%s' % list
'%r' % s
'%r' % quotes
'%(a)s' % {'a': 1}
'%(b)d-%(a)s' % d
'%s' % d
'%s' % nothing
'%s'
'%d' % 'a'
'%s %s' % n
'%s' % (1, 2)
'100%' % ()
'%' % 1
'%q' % 1
'%5s|%-5s|' % ('ab', 'cd')
'%.3s' % s
'%*d' % (5, n)
'%g' % huge
'%g' % tiny
'%e' % 12345.678
'%G' % 1e-10
'%i' % 3.9
'%u' % 3
'%a' % uni
'%c' % 'x'
'%#x' % 255
'%#o' % 8
'% d' % n
'%s' % tiny
'%.1f' % 0.25
'%.0f' % 0.5
'%.0f' % 1.5
'%.20f' % 0.1
n % 'a'
n == 7
n == 7.0
n == '7'
n != 7
1 == true
0 == false
1 == 1.0
none == none
none == false
'' == none
[] == []
[1, 2] == [1, 2]
[1] == (1,)
{'a': 1} == {'a': 1}
'a' == 'a'
'a' < 'b'
'a' < 'B'
'a' < 1
1 < 'a'
none < 1
[1] < [2]
[1, 2] < [1, 3]
1 < 2 < 3
1 < 3 < 2
1 < 2 == true
n > 3 and n < 10
n > 3 or nosuch
n < 3 and nosuch
n and s
empty or 'x'
zero or empty
zero and nosuch
nothing or 'default'
not empty
not elist
not edict
not nothing
not 0.0
1 in list
9 in list
'W' in s
'' in s
'z' not in s
'b' in d
1 in d
'a' in 5
1 in s
none in [none]
2.0 in list
true in list
'a' in ('a', 'b')
'x' if yes
'x' if no
'x' if no else 'y'
'x' if no else 'y' if no else 'z'
('x' if no) is defined
('x' if no) ~ 'a'
1 if nosuch is defined else 2
s ~ n ~ f ~ nothing ~ yes
s ~ list
none ~ none
1 ~ 2
'a' ~ 'b' + 'c'
1 + 2 ~ 3
n is odd
n is even
n is divisibleby 7
n is divisibleby(2)
f is divisibleby 2
n is divisibleby 0
n is number
s is number
yes is number
nothing is number
f is float
n is float
n is integer
yes is integer
yes is boolean
n is boolean
yes is true
n is true
no is false
s is string
n is string
s is sequence
list is sequence
d is sequence
n is sequence
s is iterable
n is iterable
d is iterable
d is mapping
list is mapping
nothing is none
s is none
s is defined
nosuch is defined
nosuch is undefined
d.nosuch is defined
d.a.nosuch is undefined
list[9] is defined
nosuch.deeper is defined
n is callable
range is callable
dict is callable
s.upper is callable
n is in list
1 is in(list)
n is not in list
n is not odd
n is eq 7
n is ne(7)
n is gt 3
n is ge 7
n is lt 3
n is le 7
n is equalto 7
n is greaterthan 3
n is lessthan 3
n is sameas 7
nothing is sameas none
yes is sameas true
s is lower
'abc' is lower
'ABC' is upper
'' is upper
'1' is lower
s is escaped
'x' is filter
'upper' is filter
'odd' is test
'nosuch' is test
s is nosuch
s|nosuch
s is odd
'a' is divisibleby 2
nosuch
nosuch.a
nosuch['a']
nosuch[0]
nosuch()
nosuch + 1
1 + nosuch
nosuch == 1
nosuch != 1
nosuch < 1
nosuch and 1
not nosuch
nosuch in list
1 in nosuch
nosuch ~ 'a'
nosuch|length
nosuch|upper
nosuch|default('x')
nosuch|default
nosuch|d('x')
nosuch|default(none)
nosuch.a|default('x')
d.nosuch|default('x')
d.nosuch.deeper|default('x')
list[9]|default('x')
empty|default('x')
empty|default('x', true)
empty|default('x', boolean=true)
nothing|default('x')
nothing|default('x', true)
zero|default(5, true)
no|default(5, true)
nosuch|tojson
nosuch|string
nosuch|list
nosuch|join
nosuch|first
nosuch|int
nosuch|e
nosuch|safe
nosuch|replace('a', 'b')
nosuch|trim
nosuch|abs
nosuch|sum
nosuch|sort
nosuch|map('upper')|list
nosuch|select|list
nosuch|reverse
nosuch|round
nosuch|wordcount
nosuch|items
nosuch|items|list
nosuch|pprint
nosuch|format(1)
nosuch|truncate
nosuch|indent
nosuch|unique|list
nosuch|batch(2)|list
nosuch|attr('x')
nosuch|min
nosuch|title
[nosuch]
[nosuch]|length
{'a': nosuch}
(nosuch,)
nosuch is none
nosuch is string
nosuch is iterable
nosuch is sameas nosuch
nosuch if yes else 1
1 if nosuch else 2
s[nosuch]
list[nosuch]
list[:nosuch]
range(nosuch)
dict(a=nosuch)|length
'a'|replace('a', nosuch)
s.upper(nosuch)
list|join(nosuch)
nosuch.a.b.c
d.nosuch
d.nosuch.x
d['nosuch']
d.a.nosuch
d.a.z[5]
d.a.z[1].q
d['a']['z'][1]['q']
d.b
d.items
d['items']
d.items()
flat.items()
flat.items()|list
flat.keys()
flat.keys()|list
flat.values()
flat.values()|list
flat.get('a')
flat.get('zz')
flat.get('zz', 5)
flat.get('zz', default=5)
flat.get()
flat.pop('a')
flat.copy()
flat.update({'z': 1})
flat.setdefault('a', 3)
flat.items()|length
list.append(4)
list.index(1)
list.index(9)
list.count(1)
list.copy()
list.sort()
list.pop()
list.reverse()
list.extend([1])
list.insert(0, 1)
list.nosuch
list.nosuch()
(1, 2).index(2)
(1, 2).count(2)
n.nosuch
n.real
n.bit_length()
f.is_integer()
f.hex()
none.x
s.nosuch
s.nosuch()
s.upper
s['upper']
s.upper()
s.lower()
s.title()
s.capitalize()
s.swapcase()
s.casefold()
s.strip('Hd')
s.lstrip('H')
s.rstrip('d')
spaces.strip()
s.startswith('He')
s.startswith(('x', 'H'))
s.startswith('W', 6)
s.endswith('ld')
s.endswith(['ld'])
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('l')
s.split()
s.split('o')
s.split('o', 1)
s.split(maxsplit=1)
s.split('')
s.rsplit('o', 1)
s.splitlines()
lines.splitlines()
lines.splitlines(True)
s.find('o')
s.find('o', 5)
s.find('zz')
s.rfind('o')
s.index('o')
s.index('zz')
s.count('l')
s.count('')
s.join(['a', 'b'])
', '.join(words)
', '.join(list)
', '.join('abc')
'-'.join(flat)
s.partition(' ')
s.rpartition('o')
s.zfill(15)
s.ljust(15, '.')
s.rjust(15)
s.center(15, '*')
s.center(14)
s.isalpha()
'abc'.isalpha()
'12'.isdigit()
'12'.isnumeric()
'²'.isdigit()
'½'.isnumeric()
'12'.isdecimal()
'a1'.isalnum()
'a_1'.isidentifier()
'  '.isspace()
''.isspace()
'Ab Cd'.istitle()
'abc'.islower()
'ABC'.isupper()
'abc'.isascii()
'é'.isascii()
'a\x01'.isprintable()
s.removeprefix('Hello ')
s.removesuffix('World')
s.encode()
s.expandtabs()
'a\tb'.expandtabs(4)
'a\tbc\td'.expandtabs()
s.format()
'{}'.format(s)
'{} {}'.format(1, 'a')
'{0} {1} {0}'.format('a', 'b')
'{x}'.format(x=5)
'{:>10}|'.format('a')
'{:<10}|'.format('a')
'{:^10}|'.format('a')
'{:*^10}'.format('a')
'{:10}|{:10}|'.format('a', 5)
'{:05d}'.format(42)
'{:+d}'.format(42)
'{: d}'.format(42)
'{:,}'.format(1234567)
'{:_}'.format(1234567)
'{:,.2f}'.format(1234567.891)
'{:.2f}'.format(cost)
'{:.3}'.format('abcdef')
'{:.3}'.format(third)
'{:.3g}'.format(third)
'{:e}'.format(12345.678)
'{:%}'.format(0.25)
'{:.1%}'.format(0.256)
'{:x} {:X} {:o} {:b}'.format(255, 255, 8, 5)
'{:#x} {:#b}'.format(255, 5)
'{:08.3f}'.format(3.14159)
'{:>8.2f}|'.format(2)
'{!r}'.format('a')
'{!s}'.format(1)
'{!r:>6}'.format('a')
'{{}}'.format()
'{{{}}}'.format(1)
'{0[a]}'.format({'a': 1})
'{0.a}'.format({'a': 1})
'{0[1]}'.format([1, 2])
'{}'.format(none)
'{}'.format(true)
'{}'.format([1, 'a'])
'{:5}'.format(true)
'{:d}'.format(true)
'{}'.format(tiny)
'{}'.format(huge)
'{:g}'.format(huge)
'{:.0f}'.format(0.5)
'{:{w}}|'.format('a', w=5)
'{'.format()
'}'.format()
'{}'.format()
'{a}'.format()
'{:d}'.format('a')
'{:q}'.format(1)
'{} {1}'.format(1, 2)
'{:c}'.format(65)
'{:n}'.format(5)
'{:<5}|'.format(none)
'{}'.format(none)
'{:s}'.format('x')
'{:s}'.format(1)
'{:10.4}|'.format(cost)
s[0]
s[-1]
s[50]
s[50] is defined
s[:5]
s[5:]
s[-5:]
s[:-5]
s[::2]
s[::-1]
s[5:2]
s[2:8:3]
s[8:2:-2]
s[:100]
s[-100:]
s[1.0:]
s['a':]
s[none:3]
s[:none]
s[::0]
s[:n // 2]
s[- n // 2:]
s[-n:]
s[0:]
uni[6:8]
uni[-1]
uni[::-1]
list[0]
list[-1]
list[5]
list[-5]
list['0']
list['a']
list[1:]
list[::-1]
list[:2] + list[2:]
list[1.0]
list[true]
list[0:2][1]
list.0
rows.0.k
rows[0].k
rows[-1]['k']
rows[0]['zz']
nested[1][1][1]
nested.1.0
(1, 2, 3)[1:]
(1, 2)[0]
[1, 2, 3][-2:]
{'a': 1}.a
{'a': 1}['a']
{'a': {'b': 2}}.a.b
d[0]
5[0]
n[0]
nothing[0]
nothing.x
yes.x
range(3)
range(3)|list
range(1, 4)|list
range(10, 0, -3)|list
range(0)|list
range(3)[1]
range(3)|length
range(2, 8, 2)|join(',')
range('a')
range(1.5)
range(1, 2, 0)
dict(a=1, b=2)
dict()
dict({'a': 1}, b=2)
dict([['a', 1]])
lipsum is defined
cycler('a', 'b').next()
joiner(',')()
namespace(a=1).a
namespace(a=1)
namespace is defined
range
dict
loop
self
caller
true
True
TRUE
false
False
none
None
NONE
null
undefined
"""

FILTERS = r"""
neg|abs
f|abs
'a'|abs
rows|attr('k')
rows[0]|attr('k')
s|attr('upper')
list|batch(2)|list
list|batch(2, 0)|list
list|batch(2, fill_with='x')|list
[]|batch(2)|list
s|capitalize
'ÉCOLE'|capitalize
'straße'|upper
'ǅ'|lower
'İ'|lower
'ß'|capitalize
n|capitalize
'a'|center(5)
'a'|center(6)
'ab'|center(5)
'abc'|center
'a'|center(width=3)
list|count
s|count
flat|dictsort
flat|dictsort(true)
flat|dictsort(by='value')
flat|dictsort(reverse=true)
flat|dictsort(false, 'value', true)
d|dictsort
edict|dictsort
list|dictsort
html|e
html|escape
html|e|e
html|forceescape
n|e
list|e
nothing|e
1024|filesizeformat
0|filesizeformat
1|filesizeformat
999|filesizeformat
1000|filesizeformat
1500000|filesizeformat
1024|filesizeformat(true)
1048576|filesizeformat(binary=true)
list|first
elist|first
s|first
flat|first
''|first
n|first
'3.7'|float
'x'|float
'x'|float(1)
n|float
nothing|float
'1e5'|float
'inf'|float
'nan'|float
' 2 '|float
true|float
'%s'|format(1)
'%s %d'|format('a', 5)
'%(a)s'|format(a=1)
'%s'|format
'%s'|format(1, 2)
'%05.1f|'|format(f)
'%x'|format(255)
'%5s|'|format('a')
'%d'|format('x')
'%s'|format(list)
'%r'|format('a')
'a %% b'|format
rows|groupby('k')|list
rows|groupby('k')|map('first')|list
rows|groupby('k', case_sensitive=true)|map(attribute=0)|list
people|groupby('age')|map(attribute='grouper')|list
people|groupby('nosuch', default='z')|list|length
people|groupby('age')|first
code|indent
code|indent(2)
code|indent(2, true)
code|indent(2, false, true)
code|indent(width=2, first=true)
code|indent(2, blank=true)
code|indent('> ')
code|indent('> ', first=true, blank=true)
''|indent
'a'|indent(first=true)
'a\r\nb'|indent(2)
'a\n'|indent(2, true, true)
n|indent
'42'|int
'42.9'|int
'x'|int
'x'|int(5)
'x'|int(default=7)
''|int
' 12 '|int
'0x1f'|int
'0x1f'|int(0, 16)
'ff'|int(base=16)
'z'|int(0, 36)
'101'|int(0, 2)
'1_000'|int
'-5'|int
'+5'|int
'--5'|int
'1e3'|int
'1e400'|int
'inf'|int
'nan'|int
3.99|int
-3.99|int
1e20|int
1e30|int
true|int
nothing|int
list|int
'١٢'|int
flat|items|list
edict|items|list
flat|items
list|items|list
flat|items|map('first')|join
list|join
list|join(', ')
list|join('-', 'x')
words|join(d='|')
rows|join(',', attribute='k')
rows|join(',', 'v')
people|join('; ', attribute='tags')
s|join('-')
flat|join(',')
mixed|join('|')
[none, true, 1.0]|join(' ')
elist|join(',')
n|join
nested|join(';')
[html]|join
[1, 'a', html|safe]|join('<')
list|last
elist|last
s|last
list|length
s|length
uni|length
flat|length
n|length
nothing|length
range(5)|length
'e\u0301'|length
'😀'|length
s|list
flat|list
'héé'|list
n|list
nothing|list
(1, 2)|list
s|lower
uni|upper
n|lower
words|map('upper')|list
words|map('length')|list
words|map('replace', 'p', 'P')|list
rows|map(attribute='k')|list
rows|map(attribute='k', default='z')|list
rows|map(attribute='zz', default='z')|list
rows|map(attribute='zz')|list
rows|map('length')|list
rows|map
rows|map('nosuch')|list
rows|map(attribute='k')
rows|map(attribute='k')|map('upper')|join(',')
nested|map('first')|list
nested|map('length')|sum
nested|map(attribute=0)|list
people|map(attribute='tags.0')|list
people|map(attribute='name')|map('lower')|sort|join(' ')
list|map('string')|list
list|map('int')|sum
list|max
list|min
words|max
words|min
words|max(case_sensitive=true)
rows|max(attribute='v')
people|max(attribute='age')
people|min(attribute='name')
elist|max
mixed|max
s|max
floats|max
list|pprint
d|pprint
s|pprint
strs|random in strs
words|reject('in', ['fig'])|list
list|reject('odd')|list
list|reject|list
rows|rejectattr('v')|list
rows|rejectattr('k', 'eq', 'x')|list
rows|rejectattr('v', 'none')|list
s|replace('l', 'L')
s|replace('l', 'L', 1)
s|replace('', '-')
s|replace('World', '')
s|replace('l', 5)
s|replace('l')
n|replace(7, 'x')
s|replace('L', 'x')
list|reverse|list
list|reverse
s|reverse
flat|reverse|list
n|reverse
2.5|round
3.5|round
2.567|round(2)
2.5|round(0, 'ceil')
2.5|round(method='floor')
2.55|round(1)
1.005|round(2)
n|round
n|round(1)
-2.5|round
0.5|round
1.5|round
1234.5678|round(-2)
2.567|round(2, 'ceil')
2.567|round(2, 'floor')
2.567|round(1, 'x')
1e20|round
7.0|round|int
'a'|round
html|safe
html|safe|e
(html|safe) ~ html
html|safe|upper
list|select('odd')|list
list|select('gt', 1)|list
mixed|select|list
none_list|select|list
none_list|select('none')|list
mixed|select('string')|list
mixed|select('number')|list
rows|selectattr('v')|list
rows|selectattr('v', 'gt', 1)|list
people|selectattr('tags')|map(attribute='name')|list
people|selectattr('age', 'lt', 10)|map(attribute='name')|join(', ')
people|selectattr('name', 'in', ['Bo'])|list|length
rows|selectattr('k', 'equalto', 'x')|map(attribute='v')|list
rows|selectattr('zz', 'defined')|list
rows|selectattr('zz')|list
rows|selectattr
list|select('nosuch')|list
list|slice(2)|list
list|slice(2, 'x')|list
range(10)|slice(3)|list
range(10)|slice(3, fill_with=0)|list
range(10)|slice(4)|map('list')|list
list|sort
list|sort(true)
list|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|sort(false, true)
rows|sort(attribute='k')|map(attribute='v')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
people|sort(attribute='nosuch')|list
flat|sort
s|sort|join
mixed|sort
[2, 1.5, true]|sort
['b', 'a', 1]|sort
[[2], [1, 5], [1]]|sort
none_list|sort
n|string
f|string
list|string
nothing|string
s|string
tiny|string
'<p>a <b>b</b></p> &amp; &lt;c&gt; <!-- x -->  y'|striptags
'a < b > c'|striptags
s|striptags
list|sum
floats|sum
rows|sum(attribute='v')
people|sum(attribute='age')
people|sum('age', 100)
list|sum(start=10)
elist|sum
words|sum
nested|sum(start=[])
s|title
"it's a dog-day (foo) x_y"|title
'hello wORLD'|title
'élan vital'|title
'a1b c'|title
'tab\tsep\nline'|title
'o''neil <b> {c} [d]'|title
s|tojson
html|tojson
uni|tojson
esc|tojson
quotes|tojson
n|tojson
f|tojson
tiny|tojson
huge|tojson
big|tojson
u64|tojson
yes|tojson
nothing|tojson
list|tojson
mixed|tojson
nested|tojson
d|tojson
flat|tojson
flat|tojson(indent=2)
flat|tojson(2)
flat|tojson(indent=0)
flat|tojson(indent=none)
nested|tojson(indent=1)
d|tojson(indent=4)
elist|tojson(indent=2)
edict|tojson(2)
[[], {}]|tojson(indent=2)
(1, 2)|tojson
{1: 'a'}|tojson
{none: 1, 'a': 2}|tojson
{true: 1}|tojson
{2: 1, 10: 2, 1: 3}|tojson
{'b': 1, 'a': 2, 'B': 3, 'é': 4}|tojson
{1.5: 1}|tojson
range(3)|tojson
range(3)|list|tojson
s|tojson|length
s|tojson|tojson
s|tojson ~ '<'
flat.items()|tojson
flat.items()|list|tojson
rows|map(attribute='k')|tojson
'</script>'|tojson
'\u2028\x7f\x00'|tojson
1e16|tojson
1.0|tojson
-0.0|tojson
1e400|tojson
(1e400 - 1e400)|tojson
namespace(a=1)|tojson
html|safe|tojson
dict|tojson
spaces|trim
s|trim('Hd')
'xxaxx'|trim('x')
'xxaxx'|trim(chars='x')
n|trim
'\x1f a \x85\u2003'|trim
s|truncate(5)
s|truncate(8)
s|truncate(5, true)
s|truncate(5, false, '')
s|truncate(5, true, '..', 0)
s|truncate(8, leeway=0)
s|truncate(8, false, '...', 0)
text|truncate
text|truncate(20)
text|truncate(20, true)
text|truncate(20, end='~')
text|truncate(20, leeway=200)
uni|truncate(4, true, '', 0)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(11)
'foobarbaz'|truncate(5, leeway=0)
s|truncate(2)
n|truncate
list|unique|list
words|unique|list
words|unique(case_sensitive=true)|list
[1, 1.0, true, 2]|unique|list
rows|unique(attribute='k')|map(attribute='v')|list
nested|unique|list
s|upper
'a b/ü?&'|urlencode
flat|urlencode
[['a', 1], ['b', 'x y']]|urlencode
n|urlencode
'/a/b c'|urlencode
'see http://x.y/z and www.a.org.'|urlize
s|wordcount
text|wordcount
uni|wordcount
'it''s a-b c_d'|wordcount
''|wordcount
text|wordwrap(20)
text|wordwrap(20, false)
text|wordwrap(20, true, '|')
text|wordwrap(10)
text|wordwrap(width=30, wrapstring='\n> ')
text|wordwrap(20, break_on_hyphens=false)
text|wordwrap
'a b'|wordwrap(1)
''|wordwrap(5)
'aaaaaaaaaa bb'|wordwrap(4)
'  lead and   gaps'|wordwrap(8)
flat|xmlattr
{'class': 'a b', 'id': none, 'x': '<'}|xmlattr
{'a': 1}|xmlattr(false)
n|default(1)|string|length
s|upper|lower|title
s|replace('o', '0')|upper|truncate(8, true, '', 0)
-5|abs
n - 3|abs
(n - 10)|abs
1 + list|sum
list|sum + 1
list|length > 2
not list|length
s|length // 2
'a,b;c'|replace(',', ';')|replace(';', ' ')
s.split()|map('first')|join
s.split()|last|upper
csv.split(',')|select|list
csv.split(',')|map('upper')|reject('equalto', '')|join('+')
lines.splitlines()|map('length')|list
lines.split('\n')|length
path.split('/')[-1].split('.')|first
list|first|string|length
(list|join)|int + 1
d.a.z|map('string')|join('; ')
flat|dictsort|map('first')|list
flat.items()|sort(attribute=1)|list
flat.items()|map('join', '=')|join('&')
flat|list|sort
flat|map('upper')|list
"""

STATEMENTS = [
    "{% if yes %}a{% endif %}", "{% if no %}a{% endif %}|", "{% if no %}a{% elif yes %}b{% else %}c{% endif %}", "{% if list %}a{% endif %}{% if elist %}b{% endif %}", "{% if nosuch is defined and nosuch %}a{% else %}b{% endif %}", "{% if nosuch %}a{% endif %}", "{% if not nosuch %}a{% endif %}", "{% if d.nosuch %}a{% endif %}", "{% if n == 7 and s %}a{% endif %}",
    "{% for x in list %}{{ x }}{% endfor %}", "{% for x in list %}{{ x }}{% else %}none{% endfor %}", "{% for x in elist %}{{ x }}{% else %}none{% endfor %}", "{% for x in list if x > 1 %}{{ loop.index }}:{{ x }} {% endfor %}", "{% for x in list if x > 9 %}{{ x }}{% else %}none{% endfor %}", "{% for x in s[:3] %}{{ x }}-{% endfor %}", "{% for k in flat %}{{ k }}{% endfor %}", "{% for k, v in flat.items() %}{{ k }}={{ v }} {% endfor %}", "{% for k, v in flat|dictsort %}{{ k }}={{ v }} {% endfor %}", "{% for k, v in flat|items %}{{ k }}={{ v }} {% endfor %}", "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in list %}{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in nothing %}{% endfor %}", "{% for x in nosuch %}{% endfor %}", "{% for x in d.nosuch %}{% endfor %}", "{% for x in nosuch|default([]) %}{% else %}e{% endfor %}",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}", "{% for x in list %}{{ loop.previtem }}{% endfor %}", "{% for x in list %}{{ loop.previtem|default('-') }}{{ x }}{{ loop.nextitem|default('-') }} {% endfor %}", "{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}", "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in list %}{{ loop }}{% endfor %}", "{% for x in list %}{{ loop.nosuch }}{% endfor %}", "{% for x in list %}{% for y in strs %}{{ loop.depth }}{{ y }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for x in list %}{% set outer = loop %}{% for y in strs %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in nested recursive %}{% if x is iterable and x is not string %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}", "{% for x in [1, [2, [3]]] recursive %}[{{ loop(x) if x is sequence else x }}]{{ loop.depth }}{% endfor %}", "{{ loop.index }}", "{% for x in list %}{% endfor %}{{ x }}", "{% for x in list %}{% endfor %}{{ loop }}", "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in list %}{% break %}{% endfor %}", "{% for x in range(3) %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{% for x in range(3, 0, -1) %}{{ x }}{% endfor %}", "{% for i in range(2) %}{% for j in range(2) %}{{ i }}{{ j }} {% endfor %}{% endfor %}", "{% for x in rows %}{{ x.k }}{{ x['v'] }}{% endfor %}", "{% for x in 'héé' %}{{ x }}.{% endfor %}", "{% for line in text.splitlines() %}{{ '%2d'|format(loop.index) }} {{ line }}\n{% endfor %}", "{% for g in rows|groupby('k') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}", "{% for k, g in rows|groupby('k') %}{{ k }}:{{ g|map(attribute='v')|list }} {% endfor %}", "{% for b in range(5)|batch(2) %}{{ b }}{% endfor %}", "{% for x in list|sort|reverse %}{{ x }}{% endfor %}", "{% for x in d.a.z %}{{ x }}{% endfor %}", "{% for n in list %}{{ n }}{% endfor %}{{ n }}",
    "{% set x = 1 %}{{ x }}", "{% set x, y = 1, 2 %}{{ x }}{{ y }}", "{% set x = 1, 2 %}{{ x }}", "{% set (x, y) = [1, 2] %}{{ x }}{{ y }}", "{% set x, y = 1 %}", "{% set x, y = 1, 2, 3 %}", "{% set x %}a{{ n }}{% endset %}{{ x }}", "{% set x | upper %}a{{ s }}{% endset %}{{ x }}", "{% set x %}<{% endset %}{{ x }}{{ x|length }}{{ x|e }}", "{% set n = n + 1 %}{{ n }}", "{% if yes %}{% set x = 1 %}{% endif %}{{ x }}", "{% if no %}{% set x = 1 %}{% endif %}{{ x }}", "{% if no %}{% set x = 1 %}{% endif %}{{ x is defined }}", "{% for i in list %}{% set x = i %}{% endfor %}{{ x }}", "{% set x = 0 %}{% for i in list %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}", "{% set ns = namespace(x=0) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "{% set ns = namespace() %}{% set ns.a = [1] %}{{ ns.a }}{{ ns.b is defined }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}", "{% set ns = namespace(a=1) %}{{ ns.b }}", "{% set d.x = 1 %}", "{% set x = nosuch %}ok", "{% set x = nosuch %}{{ x }}", "{% set x = [] %}{% set x = x + [1] %}{{ x }}", "{% set x = [] %}{% for i in list %}{% set _ = x.append(i) %}{% endfor %}{{ x }}", "{% set x = [] %}{{ x.append(1) }}{{ x }}", "{% do list.append(1) %}", "{% set x = {} %}{{ x.update({'a': 1}) or '' }}{{ x }}", "{% set s = s|upper %}{{ s }}", "{% set x = d.a %}{{ x.z[0] }}", "{% set x = namespace %}{{ x(a=1).a }}", "{% set x -%}\n  a \n{%- endset %}[{{ x }}]", "{% set loop = 1 %}", "{% set true = 1 %}", "{% set x = 1 if no %}{{ x }}", "{% set x = 1 if no %}ok",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}", "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}", "{% with x = 1, y = x %}{{ y }}{% endwith %}", "{% with n = 1 %}{{ n }}{% endwith %}{{ n }}", "{% with a = nosuch %}ok{% endwith %}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}banana{% endfilter %}", "{% filter trim %}  a  {% endfilter %}|", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nosuch %}a{% endfilter %}", "{% filter tojson %}<a>\n{% endfilter %}",
    "{% raw %}{{ x }}{% endraw %}", "{% raw %}{% if %}{# c #}{% endraw %}", "{% raw -%}  {{ x }}  {%- endraw %}|", "{%- raw -%}  a  {%- endraw -%}", "a {%- raw %} b {% endraw -%} c", "{% raw %}", "{% raw %}{% raw %}{% endraw %}", "{{ '{{' }} {{ '}}' }} {{ '{%' }}", "{{ \"{{ x }}\" }}", "{ { x } }", "{{ '%}' }}", "{% set x = '%}' %}{{ x }}", "{% set x = '}}' %}{{ x }}", "{{ {'a': {'b': 1}}}}", "{{ {'a': {}} }}", "{{{'a': 1}}}", "{{ {}}}", "{{}}", "{{ }}", "{%%}", "{% %}", "{# #}", "{##}", "{# {{ x }} {% if %} #}a", "{# a\nb\n#}c", "{# unclosed", "{# a #} #}", "a{#b#}c", "{#- a -#}", "a {#- b #} c", "a {# b -#} c", "a\n{#- b -#}\nc",
    "{% autoescape true %}{{ html }}{% endautoescape %}", "{% autoescape false %}{{ html }}{% endautoescape %}", "{% autoescape true %}{{ html|safe }}{{ n }}{{ ['<'] }}{% endautoescape %}", "{% trans %}a{% endtrans %}", "{% debug %}", "{{ debug() }}", "{% nosuch %}", "{% endif %}", "{% if yes %}", "{% for x in list %}", "{% if %}a{% endif %}", "{% if yes %}{% endfor %}", "{% else %}", "{% for in list %}{% endfor %}", "{% for x %}{% endfor %}", "{% for x of list %}{% endfor %}", "{% set %}", "{% set x %}", "{% set 1 = 2 %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% block %}{% endblock %}", "{% block a %}{% block a %}{% endblock %}{% endblock %}", "{{ s", "{{ s }", "{{ s %}", "{% if yes }}a{% endif %}", "{{ 's }}", "{{ \"s }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ 1 2 }}", "{{ a b }}", "{{ 1 + }}", "{{ + }}", "{{ * 1 }}", "{{ a. }}", "{{ a.'b' }}", "{{ a|}}", "{{ |a }}", "{{ a is }}", "{{ a is not }}", "{{ not }}", "{{ a if }}", "{{ a if b else }}", "{{ a ? b : c }}", "{{ a && b }}", "{{ a || b }}", "{{ !a }}", "{{ a; b }}", "{{ a = 1 }}", "{{ $a }}", "{{ `a` }}", "{{ a @ b }}", "{{ lambda: 1 }}", "{{ [x for x in list] }}", "{{ {1, 2} }}", "{{ {'a'} }}", "{{ {'a': } }}", "{{ {a: 1} }}", "{{ {n: 1} }}", "{{ f(**{}) }}", "{{ dict(**flat) }}", "{{ dict(*[flat]) }}", "{{ range(*[1, 3])|list }}", "{{ range(1, stop=3) }}", "{{ s.upper(1) }}", "{{ 1 if 2 }}", "{{ list[] }}", "{{ list[0 }}", "{{ list[:] }}", "{{ list[::] }}", "{{ list[0,1] }}", "{{ d['a', 'b'] }}", "{{ s[1:2, 3] }}", "{{ 1,2 }}", "{{ 1, }}", "{{ , }}", "{{ (1, 2), 3 }}", "{{ () }}", "{{ [,] }}", "{{ [1,] }}", "{{ {'a': 1,} }}", "{{ f(1,) }}", "{{ '\\q' }}", "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ 'a\nb' }}", "{{ \"a\\\nb\" }}", "{{ 1 .real }}", "{{ 1.real }}", "{{ 1..real }}", "{{ 01 }}", "{{ 1__0 }}", "{{ 0xg }}", "{{ 1e }}", "{{ é }}", "{{ 漢 }}", "{{ x-y }}", "{{ n-1 }}", "{{ n -1 }}", "{{-n}}", "{{- n -}}", "{{+n}}", "{{ -n }}", "{{- -n }}", "{{n}}", "{{  n  }}", "{{\nn\n}}", "{{ n\n|string }}", "{% if\nyes\n%}a{% endif %}", "{%if yes%}a{%endif%}", "{%-if yes-%}a{%-endif-%}", "{%+ if yes %}a{%+ endif %}", "{{ n +}}", "{% if yes +%}a{% endif %}", "{{ s|upper()|lower }}", "{{ s | upper | lower }}", "{{ s|upper.x }}", "{{ (s|upper).lower() }}", "{{ s.upper()|lower }}", "{{ 'a'.upper() }}", "{{ 1|string + 'a' }}", "{{ not s is string }}", "{{ n is odd and s is string }}", "{{ n is not odd or no }}", "{{ n is divisibleby 7 and yes }}", "{{ n is even is false }}", "{{ not n == 7 }}", "{{ -n ** 2 }}", "{{ n + 1 is even }}", "{{ (n + 1) is even }}", "{{ 1 ~ 2 + 3 }}", "{{ 2 * 3 ~ 4 }}", "{{ 1 < 2 and 3 < 4 }}", "{{ 1 if yes else 2 + 3 }}", "{{ (1 if yes else 2) + 3 }}", "{{ 'a' in s and 'b' not in s }}", "{{ 'a' 'b' ~ 'c' }}", "{{ n in [7] }}", "{{ not n in [7] }}", "{{ 10 - 2 - 3 }}", "{{ 2 ** 3 ** 0 }}", "{{ 100 // 7 // 2 }}", "{{ 7 % 4 * 2 }}", "{{ 1 + 2 * 3 - 4 / 2 }}", "{{ (1 + 2) * 3 }}", "{{ yes and no or yes }}", "{{ yes or no and no }}", "{{ 1 == 1 == 1 }}", "{{ 3 > 2 > 1 }}", "{{ 1 != 2 != 3 }}", "{{ 'b' in flat in [true] }}",
    "a\r\nb", "a\rb", "a\r\n", "a\n", "a\n\n", "a\r\n\r\n", "\n", "\n\n", "", " ", " \n", "a \n b", "{{ n }}\n", "{{ n }}\r\n", "{{ n }}\n\n", "{{ '\n' }}", "{{ 'a\n' }}\n", "{% if yes %}\na\n{% endif %}\n", "{% if yes %}\n  a\n{% endif %}\nb\n", "  {% if yes %}\n  a\n  {% endif %}\n", "{% if yes -%}\n  a\n{%- endif %}\n", "{%- if yes %}\n  a\n{% endif -%}\n\n b", "a\n\n{%- if yes -%}\n\nb\n\n{%- endif -%}\n\nc", "a{{- n -}}b", "a {{- n -}} b", "a\n{{- n -}}\nb", "a\t{{- n }} \t b", "a \x0b{{- n }}", "a\u2003{{- n -}}\u2003b", "a\x85{{- n }}", "a\x1f{{- n -}}\x1fb", "a\u200b {{- n }}", "a\xa0{{- n -}}\xa0b", "  {%- set x = 1 -%}  {{ x }}", "{% for x in list %}\n{{ x }}\n{% endfor %}\n", "{% for x in list -%}\n{{ x }}\n{%- endfor %}\n", "{%- for x in list %}\n- {{ x }}\n{%- endfor %}\n", "\n{%- for x in list %} {{ x }}{% endfor -%}\n", "{# c #}\na", "{# c -#}\na", "a\n{#- c #}\nb", "{% set x = 1 %}\na", "{%- set x = 1 %}\na", "{% raw %}\n a\n{% endraw %}\n", "x{%- raw -%}\n a\n{%- endraw -%}\ny", "<b>{{ html }}</b>", "{{ jinjaish }}", "{{ '{{ n }}' }}", "a{{ empty }}b", "{{ n }}{{ f }}", "{{ n }} {{ f }}", "{{ s }}\\n", "\\{{ n }}", "$" + "{{ n }}", "{{ n }}%", "#{{ n }}", "# {{ n }}", "## comment\n{{ n }}", "%% if yes\n{{ n }}", "-- {{ n }}", "<!-- {{ n }} -->", "{{ n }} {# c #} {{ f }}", "a\x00b", "\ufeffa", "é漢😀{{ n }}é", "\x1b[0m{{ n }}",
    "line 1\nline 2 {{ nosuch }}\nline 3", "a\n\n{% if nosuch %}b{% endif %}", "a\n{{ d.nosuch }}\nb", "{% for x in list %}\n{{ nosuch }}\n{% endfor %}", "a\n{{ 1 / 0 }}", "a\nb\n{{ s|nosuch }}", "a\nb\n{% nosuch %}", "a\n{{ s.nosuch() }}", "a\n{{\n nosuch\n}}", "a\n{{ 1 +\n }}", "a\r\nb\r\n{{ nosuch }}", "{% macro m() %}\n{{ nosuch }}\n{% endmacro %}\n{{ m() }}", "a\n{% set x = 1 %}\n{{ x.y.z }}", "{# c\nc #}\n{{ nosuch }}", "{% raw %}\n\n{% endraw %}\n{{ nosuch }}", "a\n{% if yes %}\n{% for x in list %}\n{{ x.y }}\n{% endfor %}\n{% endif %}", "{{ 'a\nb' }}{{ nosuch }}", "a\n{% if yes %}\nb", "a\n{% for x in list %}\n{% endif %}", "\n\n{{ 's }}", "{{ s[::0] }}", "a\n{{ list|map('nosuch')|list }}",
]


def environment():
    return Environment(undefined=StrictUndefined)


def fault(error):
    line = None
    if isinstance(error, TemplateSyntaxError):
        line = error.lineno
    else:
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == "<template>":
                line = frame.lineno
    return {"error": type(error).__name__, "line": line}


def render(template, data):
    # a copy, because templates can change their variables
    data = json.loads(json.dumps(data))
    try:
        text = environment().from_string(template).render(**data)
    except Exception as error:  # any error of Jinja2 or Python
        return fault(error)
    if " at 0x" in text or "<built-in" in text or "<class " in text or "<bound method" in text or "<generator" in text or "<function" in text:
        return None  # the text has an address, which differs from run to run
    return text


def cases():
    for expression in (EXPRESSIONS + FILTERS).strip().split("\n"):
        if expression:
            yield "expression", "{{ " + expression + " }}", "data"
    for statement in STATEMENTS:
        yield "statement", statement, "data"
    yield "unassigned", "{{ [v] }}", {"v": "\ud7ff"}
    for prompt in PROMPTS:
        yield "prompt", prompt, "data"
    for name, output in OUTPUTS.items():
        for template in OBSERVATIONS:
            yield "observation", template, {"output": output}
    yield from combinations()
    yield from generated()


def combinations():
    values = ["n", "neg", "f", "whole", "s", "empty", "yes", "nothing", "list", "flat", "zero", "big", "nosuch", "'7'", "(1, 2)"]
    for operator in ["+", "-", "*", "/", "//", "%", "**", "==", "<", ">=", "in", "and", "or", "~"]:
        for left, right in itertools.product(values, values):
            if operator == "**" and right == "big" or operator == "*" and "big" in (left, right) and left != right:
                continue
            yield f"operator {operator}", "{{ " + f"{left} {operator} {right}" + " }}", "data"
    values += ["tiny", "uni", "html", "mixed", "nested", "words", "d", "elist", "text", "lines", "rows", "range(3)", "no", "num", "u64"]
    filters = ["abs", "capitalize", "count", "default('x')", "dictsort", "e", "first", "float", "int", "items|list", "join", "join(', ')", "last", "length", "list", "lower", "max", "min", "replace('a', 'b')", "reverse|list", "round", "sort", "string", "sum", "title", "tojson", "trim", "truncate(6, true, '', 0)", "unique|list", "upper", "wordcount", "indent", "map('string')|list", "select|list", "batch(2)|list", "slice(2)|list", "wordwrap(7)", "striptags", "pprint", "center(9)", "urlencode"]
    for value, name in itertools.product(values, filters):
        yield f"filter {name}", "{{ " + f"{value}|{name}" + " }}", "data"
    tests = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "sequence", "iterable", "mapping", "callable", "odd", "even", "lower", "upper", "in list", "eq 7", "divisibleby 7"]
    for value, name in itertools.product(values, tests):
        yield f"test {name}", "{{ " + f"{value} is {name}" + " }}", "data"
    texts = ["s", "empty", "uni", "spaces", "lines", "csv", "num", "path", "text", "esc"]
    methods = ["upper()", "lower()", "title()", "capitalize()", "swapcase()", "strip()", "lstrip()", "rstrip()", "strip('ao ')", "split()", "split(',')", "split(' ', 1)", "rsplit('/', 1)", "rsplit()", "splitlines()", "partition(',')", "rpartition('/')", "replace('a', '')", "replace('', '.')", "find('a')", "rfind('a')", "count('a')", "startswith('a')", "endswith('\\n')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "islower()", "isupper()", "istitle()", "isprintable()", "isnumeric()", "isidentifier()", "zfill(12)", "ljust(12)", "rjust(12)", "center(12)", "center(13)", "expandtabs()", "casefold()", "removeprefix('a')", "format()", "join('xyz')", "isascii()"]
    for value, name in itertools.product(texts, methods):
        yield f"method {name}", "{{ [" + f"{value}.{name}" + "] }}", "data"
    for start, stop, step in itertools.product(["", "0", "2", "-3", "99"], ["", "0", "5", "-1", "-99"], ["", "2", "-1"]):
        for value in ("s", "list", "uni"):
            yield "slice", "{{ " + f"{value}[{start}:{stop}:{step}]" + " }}", "data"
    specs = ["%s", "%d", "%5.1f", "%-8s|", "%08.3f", "%x", "%r", "%e", "%g", "%+d", "%c", "%10s|", "%.2s", "%o", "%i"]
    for spec, value in itertools.product(specs, ["n", "neg", "f", "s", "big", "tiny", "huge", "yes", "nothing", "'7'", "list", "whole"]):
        yield "format", "{{ '" + spec + "'|format(" + value + ") }}", "data"
        yield "percent", "{{ '" + spec + "' % " + value + " }}", "data"
    specs = ["", "d", "5", "<5", ">5", "^5", "05", "+", ".2f", "8.3f", ",", "x", "e", "g", "%", "s", ".2", "*^9", "_", "#x", "+.1e", "010.2f", ",.1f", "<+5", "c", "b"]
    for spec, value in itertools.product(specs, ["n", "neg", "f", "s", "big", "tiny", "huge", "yes", "nothing", "whole", "list"]):
        yield "str.format", "{{ '[{:" + spec + "}]'.format(" + value + ") }}", "data"
    for number, places in itertools.product(["2.5", "3.5", "-2.5", "0.125", "2.675", "1e16", "123.456", "7", "1e-7", "0.05", "1.15", "99.995"], ["", "0", "1", "2", "-1", "0, 'ceil'", "1, 'ceil'", "1, 'floor'", "2, 'floor'"]):
        yield "round", "{{ " + f"{number}|round({places})" + " }}", "data"


def generated():
    random.seed(20)
    pieces = ["a", " ", "\n", "  \n", "\t", "{{ n }}", "{{- n }}", "{{ n -}}", "{{- s -}}", "{# c #}", "{#- c -#}", "{#- c #}", "{% if yes %}b{% endif %}", "{%- if yes -%} b {%- endif -%}", "{% if no %}b{% else %} c{% endif %}", "{% for x in list %}{{ x }} {% endfor %}", "{%- for x in list -%}\n{{ x }}\n{%- endfor -%}", "{% set q = n %}", "{%- set q = n -%}", "{% raw %} {{ r }} {% endraw %}", "{%- raw -%} r {%- endraw -%}", "\r\n", "é", "}", "{", "%"]
    for _ in range(300):
        yield "white space", "".join(random.choice(pieces) for _ in range(random.randint(2, 9))), "data"
    atoms = ["n", "neg", "f", "2", "3", "1.5", "list|length", "s|length", "loop_n", "zero", "(n + 1)", "whole"]
    for _ in range(300):
        expression = random.choice(atoms)
        for _ in range(random.randint(1, 4)):
            expression += f" {random.choice(['+', '-', '*', '//', '%', '/', '<', '==', '~', 'and', 'or'])} {random.choice(atoms)}"
        yield "arithmetic", "{{ " + expression + " }}", "data"
    chains = ["upper", "lower", "title", "trim", "length", "string", "list", "join('-')", "first", "last", "reverse", "sort", "unique|list", "tojson", "replace('l', '1')", "truncate(5, true, '', 0)", "int", "default('x')", "e", "indent(2)", "capitalize", "wordcount", "round(1)", "abs", "map('upper')|list", "max", "select|list"]
    for _ in range(400):
        expression = random.choice(["s", "words", "uni", "list", "flat", "n", "f", "text", "html", "lines", "nested", "nothing", "csv.split(',')", "s.split()"])
        for _ in range(random.randint(1, 4)):
            expression += "|" + random.choice(chains)
        yield "chain", "{{ " + expression + " }}", "data"
    characters = [0, 1, 7, 8, 9, 10, 11, 12, 13, 0x1B, 0x1F, 0x20, 0x22, 0x26, 0x27, 0x2F, 0x3C, 0x3E, 0x5C, 0x60, 0x7B, 0x7E, 0x7F, 0x80, 0x85, 0xA0, 0xAD, 0xE9, 0x130, 0x300, 0x200B, 0x2028, 0x2029, 0x20AC, 0x6F22, 0xE000, 0xFEFF, 0xFFFD, 0x1F600, 0x1F469, 0x20000, 0x10FFFF]
    for _ in range(150):
        text = "".join(chr(random.choice(characters)) for _ in range(random.randint(1, 12)))
        yield "texts", "{{ v }}|{{ v|tojson }}|{{ [v] }}|{{ v|e }}|{{ v|upper }}|{{ v|trim }}|{{ v|length }}|{{ v.splitlines() }}|{{ v.split() }}|{{ v|tojson(indent=2) }}", {"v": text}

    def value(depth):
        match random.randrange(8 if depth else 6):
            case 0:
                return random.choice([0, 1, -1, 10**15, -(2**63), 2**63, random.randint(-1000, 1000)])
            case 1:
                return random.choice([0.0, -0.0, 0.1, 1e16, 1e15, 1e-5, 1e-4, 123456.789, 1e100, 5e-324, random.random() * 10 ** random.randint(-20, 20)])
            case 2:
                return random.choice([True, False, None])
            case 6:
                return [value(depth - 1) for _ in range(random.randrange(4))]
            case 7:
                return {random.choice("abcdéZ") + random.choice(["", "1", "_"]): value(depth - 1) for _ in range(random.randrange(4))}
            case _:
                return "".join(chr(random.choice(characters)) for _ in range(random.randrange(5)))

    for _ in range(200):
        yield "values", "{{ v }}|{{ v|tojson }}|{{ v|tojson(indent=2) }}|{{ [v] }}|{{ (v, v) }}|{{ v|string }}|{{ v == v }}|{{ 'y' if v else 'n' }}", {"v": value(3)}


def main():
    seen = set()
    lines = []
    for group, template, data in cases():
        key = json.dumps([template, data])
        if key not in seen:
            seen.add(key)
            result = render(template, DATA if data == "data" else data)
            if result is not None:
                lines.append(json.dumps([group, template, data, result], separators=(",", ":")))
    sets = json.dumps({"data": DATA}, separators=(",", ":"))
    sys.stdout.write('{"vars":' + sets + ',\n"cases":[\n' + ",\n".join(lines) + "\n]}\n")


main()

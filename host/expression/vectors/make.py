"""Prints `vectors.jsonl`: what Python's `re` (3.11 or later) finds with many expressions in many texts.

The first line has the texts. Each other line has an expression, whether a dot matches line breaks, and a digest
of what is found in all texts; `null` if Python refuses the expression. With the argument `all`, in place of the
digest stands what it is made of: for each text with matches, the start and the end, in characters, of each match
and of its groups (-1 for a group that took no part).
"""

import json
import random
import re
import sys
import warnings

warnings.simplefilter("ignore")

TEXTS = [
    "", "a", "ab", "aab", "abab\n", "b\na\n\nab", "aXbxAB", "A sudo rm -rf / \n", "\n", "\r\nls\r\n", "0123 45_67-89",
    "x{,2} {cmd} a{2}", "<a>b</a> \\<a\\> &&", "[[a]] ]a[ ^a-b", "ünïcödé ÜÉ ẞß", "İıiI Kk ſsS µμ", "٣4 Ⅳ² ①", "a\u2003b\x1fc\xa0d\x1cE",
    "\u0915\u093f\u0301 e\u0301", "foobar foo barfoo foofoo", "'it' \"quoted\" `x`", "aaaaaaaaab", "key=value; other = 12",
    "```bash\nls -la\n```", "```bash\necho '```'\n```\n```bash\npwd\n```", "```mswea_bash_command \n\n  ls\n```\n", "```sh\r\nls\r\n```",
    "<think>```bash\nrm\n```</think>\n```bash\nls\n```", "<bash>ls</bash><bash>\npwd\n</bash>", "COMMAND: ls\nCOMMAND:pwd", "$ ls\n$ cat a\n> b",
    "<function=bash>\n<parameter=command>ls</parameter>\n</function>", '{"command": "ls \\"a\\""}', "Thought: x\nAction: ls\n\nAction: pwd",
]
PLAIN = r"""
a
ab|a
(a)(b)?
(a|ab)(b|)
a*
a*?
a+?b
a??
(a*)*
(a*)+
(a|b)*?b
(a*?)*?b
(?:a|)+b
|a
a||b
(|a)+
((a)|b)+
(a)|b
(?:(a)|b)*
^a
a$
^$
$
^
\Aa
a\Z
\Z
(?m)^a
(?m)a$
(?m)^$
(?m)$
(?m)\Aa
(?m)a\Z
(?s).+
.+
.
\n$
[^\n]+$
$\n
\n\Z
a$\n
\bfoo\b
\Bfoo
foo\B
\b
\B
\w+
\W+
\d+
\D+
\s+
\S+
[\w-]+
[\d_]+
[\s,]+
[^\w\s]+
[^\W\d]+
(?a)\w+
(?a)\W
(?a)\d+
(?a)\s+
(?a)\b
(?a:\w)+\w
(?i)ab
(?i)x
(?i)i
(?i)k
(?i)s
(?i)ß
(?i)µ
(?i)[a-z]+
(?i)[A-Z]+
(?i)[^a-z]+
(?i)[à-ÿ]+
(?i)[k-s]
(?i)é
(?ai)k
(?ai)[a-z]+
(?i)(a)\1
(?i:A)b
a(?i:B)
(?-i:a)b
(?i)a(?-i:B)
(?im)^A
(?x) a b # comment
(?x)a\ b
(?x)a [ ] # c
(?x:a b)c d
(?x) [#] | \#
(?s-i:.)
(?u)\w
[]a]+
[^]a]+
[[]
[^[<]+
[[a]
[a[]+]
[a&&b]+
[&&]+
[a--b]
[a-]
[-a]
[a\-b]+
[a^]+
[\]]+
[\\<]+
[||~~]
[.*+?]+
[\b]
[\n\r\t]+
[\x41-\x5a]+
[\u00e0-\u00ff]+
[\U000000e0-\U000000ff]+
[\101]
[\0]
[é-ü]+
[^é-ü]+
[z-a]
[a-\w]
[\w-a]
[
[^]
[a
a{2}
a{2,}
a{,2}
a{2,3}?
a{1,2}+
a{0}
a{0,0}b
{cmd}
{,2}
{
}
x{
x{,2}
a{2
a{2,1}
a{}
a{ 2}
a{-1}
(ab){2}
(a|b){2,3}
(?:ab){,2}
a{2}{3}
a**
a*+
a++
a?+
a++a
a*+b
(?:ab|a)++b
(?:a|ab)*+b
a+??
a*?+
(?>a+)b
(?>a+)a
(?>a|ab)b
(?>(a)|b)+
*a
+
?
a|*
(*)
(?=a)
(?=(a+))
(?=(a))\1
(?!a)b
(?!a)
a(?=b)
a(?!b)
(?<=a)b
(?<!a)b
(?<=^)a
(?<=foo)bar
(?<!foo)bar
(?<=a|b)b
(?<=ab|b)a
(?<=a*)b
(?<=a{2})b
(?<=(a))b
(?<=(a)\1)b
(a)(?<=\1)b
(?<=(?=a)a)b
(?=a*)*b
(a)\1
(a)(b)\2
(?P<n>a)(?P=n)
(?P<n>a)\1
(?P<é>a)(?P=é)
(?P<1>a)
(?P<n>a)(?P<n>b)
(?P=n)
(?P>n)
(?P<n
(?P<>a)
(?P
(a)?\1b
\1(a)
(a\1)
\2(a)
(a)(?(1)b|c)
(a)?(?(1)b|x)
(?P<q>')?\w+(?(q)'|)
(?(1)a|b)(a)
(?(2)a)
(?(a)b)
(?(0)a)
(?(1)a|b|c)(a)
(?#comment)a
a(?#comment)*
(?#
(?i)(?m)^a
a(?i)b
a|(?i)b
(?i
(?iz)a
(?i-)a
(?-i)a
(?i-i:a)
(?L)a
(?au)a
(?a)(?u)a
(?au:a)
(?a-u:a)
(?
(
)
a)
(a
(?:
(?<a)
(?'n'a)
(?R)
(?&n)
(?|a|b)
(?<n>a)
\
\a
\f
\v
\e
\c
\G
\K
\z
\h
\R
\p{L}
\X
\Q
\<
\>
\<a\>
\`
\'
\"
\-
\_
\#
\ 
\/
\&
\~
\@
\!
\%
\:
\,
\;
\=
\x4
\x41
\xé
\u00e9
\u00
\U000000e9
\U00110000
\0
\00
\01
\08
\012
\101
\141
\400
\8
\9
\18
\N{}
\N
\N{a
\é
é+
ü|ö
[^é]
ſ
K
(?i)ſ
(?i)K
(?i)ı
(?i)İ
\d{1,3}(?:,\d{3})*
(\w+)=(\w+)
(\w+)\s*=\s*(\d+)
(["'`]).*?\1
^(\s*)(\S+)
(?:^|\s)sudo(?:\s|$)
rm\s+-(?:r|f)+
(.+?)\s*$
^.*$
(?m)^.*$
.*?
.*
(.*)(.*)
(.*?)(.*)
(?s)(.*)\n(.*)
((((a))))
(?:(?:(?:a)))
(a(b(c)?)?)?
(?:a(?=b)|b)+
(?:a|b)+?$
(a+)+$
(?:foo){2}
foo(?:bar)?
(foo|bar)+
(foo)?bar
x*
(?:x)*
(x)*
(x)+?
-?\d+
[+-]?\d+
"""
DOT_ALL = r"""
```mswea_bash_command\s*\n(.*?)\n```
```bash\s*\n(.*?)\n```
```(?:bash|sh)\s*\n(.*?)\n```
```(?:bash)?\s*\n(.*?)```
```[a-z]*\s*\n(.*?)\r?\n```
^```bash\n(.*?)\n```$
(?m)^```bash\n(.*?)\n```$
```bash\n((?:(?!```).)*)```
(?<!>)```bash\n(.*?)\n```(?!<)
(?:\A|\n)```bash\s*\n(.*?)\n```(?=\n|\Z)
<bash>(.*?)</bash>
<bash>\s*([^<]+?)\s*</bash>
\<bash\>(.*?)\</bash\>
<(\w+)>.*?</\1>
<(?P<tag>\w+)>(.*?)</(?P=tag)>
<parameter=command>(.*?)</parameter>
<function=\w+>.*?<parameter=\w+>([^[<]+)</parameter>
COMMAND:\s*(.*)
COMMAND:\s*([^\n]*)
(?-s:COMMAND: (.*))
COMMAND: ?(.*?)$
(?m)COMMAND: ?(.*?)$
(?m)^\$ (.*?)$
\$ [^\n]+
\$ (.+?)(?=\n\$|\Z)
Action: (.*?)(?:\n\n|$)
Action:\s*(?>[^\n]*)
(?:Thought: .*?\n)?Action: ([^\n]+)
(?s:.)
(?-s:.)+
(?-s).
.*
.+?$
.\Z
"command": "((?:[^"\\]|\\.)*)"
"command":\s*"((?>[^"\\]+|\\.)*)"
{"command": (.*?)}
(?i)<BASH>(.*?)</BASH>
(?x) < bash > ( .*? ) </ bash >
``` (?# opened ) bash
(```)bash\n(.*?)\n\1
(?(?=a)b)
<think>.*?</think>
(?:<think>.*?</think>\s*)?```bash\n(.*?)\n```
\A(?:<think>.*?</think>)?\s*```bash\n(.*?)\n```\s*\Z
"""

R = random.Random(36)
ATOMS = ["a", "b", ".", r"\w", "[ab]", "[^a]", r"\b", "$", "^", r"\n", "é", "(a)", "(b|a)", "(?:a|)", "(a*)", "(|b)", r"\d", " ", "{", "[[<]", r"\Z"]
REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{,2}", "{1,2}?", "{2,}"]
GROUPS = ["(%s)", "(?:%s)", "(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)", "(?>%s)", "(?i:%s)", "(?s:%s)", "(?m:%s)"]


def made(depth):
    """A random expression."""
    out = []
    for _ in range(R.randint(1, 3)):
        is_group = depth and R.random() < 0.4
        part = R.choice(GROUPS) % made(depth - 1) if is_group else R.choice(ATOMS)
        out.append(part + (R.choice(REPEATS) if R.random() < 0.4 else ""))
    return "".join(out) + ("|" + made(depth) if R.random() < 0.2 else "")


def found(pattern, dot_all):
    """What Python finds in each text, or None if it refuses the expression."""
    try:
        compiled = re.compile(pattern, re.DOTALL if dot_all else 0)
    except (re.error, ValueError, OverflowError):
        return None
    out = []
    for number, text in enumerate(TEXTS):
        groups = range(compiled.groups + 1)
        spans = [[at for group in groups for at in match.span(group)] for match in compiled.finditer(text)]
        if spans:
            out.append([number, spans])
    return json.dumps(out, separators=(",", ":"))


def digest(text):
    """FNV-1a in 64 bits."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def main():
    """Prints all lines."""

    def line(value):
        print(json.dumps(value, ensure_ascii=True, separators=(",", ":")))

    line(TEXTS)
    cases = [(it, False) for it in PLAIN.split("\n") if it] + [(it, True) for it in DOT_ALL.split("\n") if it]
    while len(cases) < 520:
        pattern, dot_all = made(2), R.random() < 0.5
        if found(pattern, dot_all) is not None:
            cases.append((pattern, dot_all))
    for pattern, dot_all in cases:
        matches = found(pattern, dot_all)
        line([pattern, dot_all, matches if matches is None or "all" in sys.argv else digest(matches)])


main()

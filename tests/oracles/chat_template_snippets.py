"""The templates and inputs that chat_template_goldens.py renders."""

MESSAGES = [
    {"role": "system", "content": "S"},
    {"role": "user", "content": "U1"},
    {"role": "assistant", "content": "A1"},
    {"role": "user", "content": "U2"},
]

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Tells the weather in <city> & \"around\" it, é今",
            "parameters": {
                "type": "object",
                "properties": {"zone": {"type": "string"}, "city": {"type": "string", "enum": ["Rome", "Oslo"]},
                               "days": {"type": "integer", "minimum": 1, "default": 1.5}},
                "required": ["zone"],
            },
        },
    },
]

_TEXTS = {
    "extra": {
        "s": "Hello, World",
        "u": "Größe ÉTÉ 今天 ñ",
        "n": 7,
        "f": 2.5,
        "t": True,
        "nothing": None,
        "l": [3, 1, 2],
        "words": ["b", "A", "c", "a"],
        "d": {"b": 1, "a": [1, 2.0, None, True, "x'y"], "c": {"k": "v"}},
        "rows": [{"name": "x", "age": 3, "in": {"k": 1}}, {"name": "Y", "age": 1, "in": {"k": 2}},
                 {"name": "z", "age": 3, "in": {"k": 3}}],
        "think": "x</think>\n\nans",
        "lines": "a\nb\r\n\nc\n",
    },
    "messages": MESSAGES,
}

_EXPRESSIONS = r"""
1 + 2 * 3 - 4
7 // 2 ~ ' ' ~ -7 // 2 ~ ' ' ~ 7 % -3 ~ ' ' ~ -7 % 3
7 / 2
8 / 2
7.5 // 2 ~ ' ' ~ -7.5 % 2 ~ ' ' ~ 7.0 // -2
2 ** 10 ~ ' ' ~ 2 ** -1 ~ ' ' ~ 2 ** 3 ** 2
-2 ** 2
1e3 ~ ' ' ~ 1.5e-7 ~ ' ' ~ 1e16 ~ ' ' ~ 123456789012345680.0 ~ ' ' ~ 0.1 ~ ' ' ~ 1e100
0x1F + 0b101 + 0o17 + 1_000
1 // 0
1 % 0
1.0 / 0
'a' 'b' "c"
'a\n\t\\\'\"\x41\u4eca\U0001F600\101\q'
'x' * 3 ~ 2 * 'y' ~ 'z' * -1
[1] * 2 + [2]
(1, 2) + (3,)
'a' + 1
1 + 'a'
nothing + 1
missing + 1
missing ~ 'x'
missing
missing.x
missing['x']
d.missing
d.missing.x
d['missing']
nothing.x
nothing[0]
l[5]
l[-1]
l[1.5]
s[0] ~ s[-1] ~ u[2] ~ u[10]
s[99]
s[1:4] ~ '|' ~ s[:-3] ~ '|' ~ s[::2] ~ '|' ~ s[::-1] ~ '|' ~ s[-3:]
u[1:4] ~ '|' ~ u[::-1] ~ '|' ~ u[-4:-1]
l[1:] ~ l[::-1] ~ l[:0] ~ l[10:] ~ l[-2:] ~ l[5:1:-1] ~ l[1:3:5]
(1,2,3)[1:]
l[::0]
nothing[1:]
l['1':]
'abcdef'[::2] ~ 'abcdef'[:-1] ~ messages[-2].content
messages[::-1] | map(attribute='role') | join(',')
1 < 2 < 3
3 > 2 > 2
1 == 1.0
1 == true
'a' < 'b'
'a' < 1
[1,2] < [1,3]
[1,2] == (1,2)
none == none
missing == missing2
missing == none
{'a':1,'b':2} == {'b':2,'a':1}
1 in l
4 not in l
'ell' in s
'b' in d
'x' in missing
1 in 'a'
not 1 in l
1 and 0 or 'x'
[] or {} or '' or 'last'
'a' and 'b'
not ''
'yes' if n > 5 else 'no'
'yes' if n > 50
'a' if false else 'b' if false else 'c'
true ~ True ~ false ~ none ~ None
[1, 'a', none, true, 1.0, {'k': (1,)}, (), [[]]]
{'a': 1, 2: 'b', none: [], true: 1.5}
(1,)
()
1, 2
{'it\'s': "q\"q", 'both': "'\"", 'nl': 'a\nb\t\\'}
'\u0000\x7f\u00e9\u200b' in [''] 
['\x00\x7f\u00e9\u200b\xad']
{}
{'a': 1, 'a': 2}
{[1]: 2}
-n
+n
--n
-f|abs
-3|abs
s|upper ~ s|lower ~ s|title ~ s|capitalize
u|upper ~ u|lower ~ u|title ~ u|capitalize
u.upper() ~ u.lower() ~ u.title() ~ u.swapcase() ~ u.capitalize()
"they're bill's friends-from (the [uk"|title
"they're bill's friends-from (the [uk".title()
'straße'|upper ~ 'ﬁn'|length
'  x  '|trim ~ '|'
'xxhixx'|trim('x')
' \u3000\u00a0x\u2003 '|trim ~ '|'
42|trim
s|length ~ u|length ~ l|length ~ d|count ~ missing|length
n|length
s|first ~ s|last ~ l|first ~ l|last ~ u|first ~ []|first
d|first ~ d|last
l|join ~ l|join('-') ~ l|join(d=', ')
rows|join(',', attribute='name')
s|join('.')
[1, none, 'x', true]|join(' ')
s|list
d|list
range(5)|list ~ range(2,8,3)|list ~ range(5,0,-2)|list
range(3)
range(0)
range(1,13,4)
range(3)[1] ~ range(3)[::-1]|list ~ range(10)|length
range(100001)
range(1, 2, 0)
rows|map(attribute='name')|list
rows|map(attribute='in.k')|list
rows|map(attribute='nope', default='-')|list
words|map('upper')|join
words|map('replace', 'a', 'q')|join
l|map('string')|list
l|map('nofilter')|list
l|map|list
l|select('odd')|list ~ l|reject('odd')|list ~ l|select('gt', 1)|list
[0, 1, '', 'a', none]|select|list
[0, 1, '', 'a', none]|reject|list
rows|selectattr('age', 'equalto', 3)|map(attribute='name')|list
rows|selectattr('age', '==', 1)|list|length
rows|rejectattr('in.k', 'lt', 2)|map(attribute='name')|join
rows|selectattr('nope')|list
rows|selectattr('nope', 'defined')|list
rows|selectattr('name', 'in', ['x', 'z'])|map(attribute='age')|sum
l|select('notest')|list
'yes' if []|select else 'no'
l|map('string')|length
missing|default('d') ~ nothing|default('d') ~ nothing|d('d', true) ~ ''|default('e', boolean=true)
missing.x|default('d')
d.missing|default('d')
d|tojson
d|tojson(indent=2)
d|tojson(indent=0)
d|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
d|tojson(indent=4, separators=(', ', ': '), sort_keys=true)
u|tojson ~ u|tojson(ensure_ascii=true) ~ '😀'|tojson(ensure_ascii=true)
'\x00\x1f\x7f\b\f\n\r\t"\\/<>&\''|tojson
{'b':1,'a':'<é>\'&"','n':none,'t':true} | tojson
{'b':1,'a':'<é>\'&"','n':none,'t':true} | tojson(ensure_ascii=False)
[1.0, 1e20, 1.5e-9, 0.1, -0.0, 100000.0, 12345678901234567890.0]|tojson
{1: 2, 1.5: 3, none: 4, true: 5}|tojson
[]|tojson ~ {}|tojson ~ []|tojson(indent=2) ~ {}|tojson(indent=2) ~ [[],{}]|tojson(indent=1)
(1,2)|tojson ~ none|tojson ~ 'a'|tojson ~ true|tojson
missing|tojson
range(3)|tojson
l|map('string')|tojson
d|items|list
missing|items|list
l|items|list
d.items()|list
d.keys()|list ~ d.values()|list
d.keys() ~ d.values() ~ d.items()
d.keys()[0]
{'b': 2, 'A': 1, 'c': 0}|dictsort
{'b': 2, 'A': 1, 'c': 0}|dictsort(true)
{'b': 2, 'A': 1, 'c': 0}|dictsort(by='value')
{'b': 2, 'A': 1, 'c': 0}|dictsort(false, 'key', true)
l|sort ~ l|sort(reverse=true) ~ words|sort ~ words|sort(case_sensitive=true)
rows|sort(attribute='age')|map(attribute='name')|join
rows|sort(attribute='age,name')|map(attribute='name')|join
rows|sort(attribute='age', reverse=true)|map(attribute='name')|join
[1,'a']|sort
[]|sort
words|unique|list
words|unique(true)|list
rows|unique(attribute='age')|map(attribute='name')|join
l|reverse|list ~ s|reverse ~ u|reverse
s|replace('l', 'L') ~ s|replace('l', 'L', 1) ~ 'aaa'|replace('', '-') ~ ''|replace('', 'x')
s.replace('l', 'L', 2) ~ s.replace('', '.', 3)
1.0|string ~ 1|string ~ none|string ~ l|string
'42'|int ~ ' 42 '|int ~ '-7'|int ~ '4.9'|int ~ 'x'|int ~ 'x'|int(9) ~ 3.99|int ~ -3.99|int ~ none|int ~ true|int
'ff'|int(base=16) ~ '0xff'|int(base=16) ~ '1_0'|int ~ '_1'|int ~ '1__0'|int ~ '+5'|int ~ '1e3'|int
'1.5'|float ~ 'x'|float ~ 'x'|float(2.5) ~ 3|float ~ ' 1e3 '|float ~ '.5'|float ~ '5.'|float
2.5|round ~ ' ' ~ 3.5|round ~ ' ' ~ 2.675|round(2) ~ ' ' ~ 42.55|round(1, 'floor') ~ ' ' ~ 42.51|round(method='ceil') ~ ' ' ~ 7|round ~ ' ' ~ 1234.5|round(-2)
'<a href="x">\'&'|escape ~ '<'|e ~ 'a'|safe
lines|indent ~ '|' ~ lines|indent(2, true) ~ '|' ~ lines|indent(2, blank=true) ~ '|' ~ 'x'|indent ~ '|' ~ ''|indent(first=true)
lines|indent('> ')
5|indent
[1,2,3,4,5]|batch(2)|list ~ [1,2,3]|batch(2, 'x')|list
[1,2,3,4,5]|slice(2)|list ~ [1,2,3,4]|slice(3, 'x')|list
rows|groupby('age')|list|length
l|sum ~ [1.5, 2]|sum ~ rows|sum(attribute='age') ~ l|sum(start=10) ~ []|sum
l|min ~ l|max ~ words|min ~ words|max ~ rows|max(attribute='age')|tojson ~ []|max
'one two  three-four'|wordcount
'%s=%d %5.2f|%-5s|%05d|%x|%%|%r'|format('a', 3, 2.345, 'b', 42, 255, 'q')
'%(a)s-%(b)s'|format(a=1, b='x')
'%s %s' % ('a', 'b')
'%s' % 'x' ~ '%d' % 3.7 ~ '%s' % none ~ '%s' % [1]
'%s %s' % 'a'
'%s' % (1, 2)
'%d' % 'x'
'{} {}'.format(1, 'b') ~ '{1}{0}'.format('a', 'b') ~ '{x}{{}}'.format(x=3)
'{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}|{:x}|{:*^7}'.format('a', 'b', 'c', 42, 3.14159, 1234567, 255, 'mid')
'{}'.format()
'a,b,,c'.split(',') ~ ' a  b '.split() ~ 'a b c'.split(' ', 1) ~ 'a b c'.rsplit(' ', 1) ~ ' a b  c '.split(none, 1) ~ ' a b  c '.rsplit(none, 1) ~ ''.split() ~ ''.split(',')
'abc'.split('')
think.split('</think>')[-1].lstrip('\n') ~ '|' ~ (think.split('</think>')|first) ~ '|' ~ '--a--'.strip('-') ~ '|' ~ 'ab'.startswith(('x','a'))
'xyxhixy'.strip('xy') ~ 'xxa'.lstrip('x') ~ 'axx'.rstrip('x') ~ ' \n a \t'.strip() ~ '今日今'.strip('今')
s.startswith('Hell') ~ s.endswith('World') ~ s.startswith('ello', 1) ~ s.endswith(('x', 'ld')) ~ s.startswith('H', 0, 0)
s.startswith(['H'])
s.find('o') ~ s.find('o', 5) ~ s.rfind('o') ~ s.find('zz') ~ s.index('W') ~ u.find('天') ~ s.find('H', 1) ~ s.count('l') ~ s.count('') ~ s.find('')
s.index('zz')
lines.splitlines() ~ lines.splitlines(true)
'12'.isdigit() ~ '1a'.isdigit() ~ ''.isdigit() ~ 'ab'.isalpha() ~ 'a1'.isalnum() ~ ' \t'.isspace() ~ 'AB'.isupper() ~ 'ab1'.islower() ~ 'Ab Cd'.istitle() ~ '²'.isdigit() ~ '²'.isdecimal() ~ 'é'.isalpha() ~ 'é'.isascii()
'pre-x'.removeprefix('pre-') ~ 'x.py'.removesuffix('.py') ~ 'x'.removeprefix('y')
'7'.zfill(3) ~ '-7'.zfill(4) ~ 'ab'.center(5, '*') ~ 'abc'.center(6, '*') ~ 'ab'.ljust(4, '.') ~ 'ab'.rjust(4)
'a-b-c'.partition('-') ~ 'a-b-c'.rpartition('-') ~ 'abc'.partition('-')
', '.join(['a', 'b']) ~ '-'.join('xyz')
','.join([1])
d.get('b') ~ d.get('zz') ~ d.get('zz', 'dflt')
d.copy() == d
l.append(4)
l.pop()
l.append
d.update({'x': 1})
d.pop('b')
d.setdefault('q', 1)
l.index(2) ~ l.count(1) ~ (1,2).index(2)
l.index(9)
s.nosuch()
s.nosuch
s.__class__
''.__class__.__mro__
none.x is defined
s is string ~ n is string ~ n is number ~ f is number ~ t is number ~ n is integer ~ t is integer ~ f is float ~ t is boolean ~ n is boolean
t is true ~ t is false ~ 1 is true ~ false is false ~ nothing is none ~ missing is none
d is mapping ~ l is mapping ~ l is sequence ~ s is sequence ~ d is sequence ~ n is sequence ~ missing is sequence ~ range(3) is sequence ~ d.keys() is sequence
l is iterable ~ s is iterable ~ n is iterable ~ missing is iterable ~ (l|map('string')) is iterable
missing is defined ~ s is defined ~ missing is undefined ~ d.zz is defined ~ d.b is defined
3 is odd ~ 3 is even ~ 4 is divisibleby 2 ~ 4 is divisibleby(3)
3 is eq 3 ~ 3 is equalto(4) ~ 3 is ne 4 ~ 3 is lt 4 ~ 3 is le 3 ~ 3 is gt 2 ~ 3 is ge 4 ~ 3 is lessthan 5 ~ 3 is greaterthan 5
2 is in l ~ 2 is in [5] ~ 'a' is not in 'abc'
none is sameas none ~ true is sameas true ~ 1 is sameas true ~ l is sameas l
range is callable ~ s is callable ~ s.upper is callable
'ab' is lower ~ 'AB' is upper ~ 'Ab' is lower ~ '1' is upper
'upper' is filter ~ 'nope' is filter ~ 'odd' is test
n is not defined
not n is defined
missing is not defined and 1
n is nosuchtest
s is string and n is number or missing is defined
dict(a=1, b=2) ~ dict([('x', 1)]) ~ dict({'y': 2}, z=3)
namespace(a=1).a
strftime_now('%Y-%m-%d') ~ '|' ~ strftime_now('%d %b %Y %H:%M:%S %A %B %j %p %I %-d %y %a %e %% %D %F %T')
raise_exception('no: {} "quoted"')
nosuchfunction()
s()
5()
l|nosuchfilter
s|upper|lower|title
(s|upper).lower()
[[1,2],[3,4]]|map('sum')|list
[{'a': [10, 20]}]|map(attribute='a.1')|list
[[1,2],[3]]|map('join', '+')|list
9223372036854775807
'a' ~ 1 ~ 2.0 ~ none ~ [1]
1 ~ 2 + 3
'%d' % true ~ true + 1 ~ true * 3
u[0:0]
(n,)[0]
d.c.k ~ d['c']['k'] ~ d.a[4] ~ d.a.0
rows[0]['in'].k ~ rows[0].name
rows.0.name
'x'.join(rows|map(attribute='name'))
rows|map(attribute='age')|unique|sort|list
'a' in ['a'] and 'b' not in ['a']
'tail' if messages[-1].role == 'user' and messages|length > 2 else ''
s|length > 3
s|length + 1
2 * n|abs
n|string + '!'
s.split(', ')|last|upper
[1,2,3]|first is odd
messages|selectattr('role','equalto','user')|map(attribute='content')|join('+') ~ messages|rejectattr('role','in',['user','system'])|list|length
""".strip("\n").split("\n")

_STATEMENTS = [
    "{%- for m in messages[::-1] %}{{ (messages|length-1)-loop.index0 }}{{ m.role[0] }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for m in messages %}{% if m.role=='assistant' %}{% break %}{% endif %}{{ m.content }};{% endfor %}",
    "{% for m in messages %}{% if m.role=='system' %}{% continue %}{% endif %}{{ loop.index }}{{ m.content }};{% endfor %}",
    "A\n  {% if true %}\n  B\n  {% endif %}\n  {#- c -#}\n C {{- ' D' }}\n{%+ if true %} E{% endif +%}\nF\n",
    "x\n\n",
    "x\n\n\n{# c #}\n",
    "\n\n{% if true %}\n\na\n\n{% endif %}\n\n",
    "a {#- x -#} b {#+ y +#}\n c\n  {# z #}  \nd",
    "  {%- if true -%}  x  {%- endif -%}  \n y",
    "  {{ 1 }}\n  {{- 2 -}}  \n  {{ 3 }}\n",
    "a\r\nb\rc{{ '\r\n' }}\r\n",
    "{% raw %}{{ x }} {% if %}{% endraw %}|{%- raw -%}  {{ y }}  {%- endraw -%} |",
    "a\n  {% raw %}\n  r\n  {% endraw %}\nb",
    "{{ {'a': {'b': 1}}['a'] }}{{ '}}' }}{{ '%}' }}",
    "{{ {} }}{{ {'a':{}} }}",
    "{% set x=0 %}{% set ns=namespace(x=0) %}{% for i in [1,2,3] %}{% set x=x+i %}{% set ns.x=ns.x+i %}{% endfor %}{{ x }},{{ ns.x }}",
    "{% for m in messages if m.role!='system' %}{{ loop.index0 }}/{{ loop.length }}{{ '!' if loop.first }}{{ '$' if loop.last }} {% endfor %}",
    "{% macro f(a,b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1,b=2) }}{{ f() }}{{ f(b=1, a=3) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, c=2) }}",
    "{% macro f(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ f('q') }}",
    "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}",
    "{% macro wrap(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call wrap('b') %}in {{ n }}{% endcall %}",
    "{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }};{% endfor %}{% endmacro %}{% call(x, i) each(l) %}{{ i }}={{ x }}{% endcall %}",
    "{% macro rec(k) %}{{ k }}{% if k > 0 %}{{ rec(k - 1) }}{% endif %}{% endmacro %}{{ rec(5) }}",
    "{% set g = 1 %}{% macro f() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ f() }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro f() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ f() }}{{ inner }}",
    "{% for i in l %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}{{ f is defined }}",
    "{% set f = s.upper %}{{ f() }}",
    "{% set x %}block {{ n }}{% endset %}{{ x }}{{ x is string }}{{ x|length }}",
    "{% set x | upper | replace('B', '-') %}ab {{ n }}{% endset %}{{ x }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = [3, 4] %}{{ c }}{{ d2 }}",
    "{% set a, b = [1] %}",
    "{% set d.x = 1 %}",
    "{% set ns = namespace({'a': 1}, b=2) %}{% set ns.c = ns.a + ns.b %}{{ ns.c }}{{ ns.zz }}{{ ns.zz is defined }}{{ ns['a'] }}",
    "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% filter upper %}a{{ s }}{% endfilter %}{% filter replace('a', 'b')|indent(2, true) %}aa\naa{% endfilter %}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% generation %}gen {{ n }}{% set q = 5 %}{% endgeneration %}{{ q }}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}{% for c in 'añ今' %}{{ c }}.{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3)), (4, [5, 6])] %}{{ a }}{{ b }}{{ c }};{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}{% for x in l if x > 5 %}x{% else %}no{% endfor %}{% for x in l %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in missing %}x{% else %}empty{% endfor %}",
    "{% for x in n %}x{% endfor %}",
    "{% for x in nothing %}x{% endfor %}",
    "{% for x in 1, 2, 3 %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.cycle('a', 'b') }};{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{% endfor %}",
    "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop(x) }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}{{ loop }}",
    "{% for x in l %}{% set outer = loop %}{% for y in words[:2] %}{{ outer.index }}{{ y }}{% endfor %}{% endfor %}",
    "{% for x in range(3) %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% else %}no{% endfor %}",
    "{% for x in l %}{% for y in l %}{% if y == 1 %}{% break %}{% endif %}{{ y }}{% endfor %}|{% endfor %}",
    "{% if n == 7 %}seven{% elif n == 8 %}eight{% else %}other{% endif %}{% if missing %}a{% elif d %}b{% endif %}{% if false %}x{% endif %}",
    "{% if n is defined and n > 3 and 'a' in words %}ok{% endif %}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + 1 %}{{ x }} {% endfor %}{{ x }}",
    "{% if false %}{{ x|nosuchfilter }}{% endif %}ok",
    "{% if true %}{{ s|nosuchfilter }}{% endif %}",
    "{% if false %}{{ raise_exception('never') }}{% endif %}fine",
    "{{ raise_exception('Only user and assistant roles are supported!') }}",
    "{% set dummy = raise_exception('from set') %}",
    "{% macro f() %}{{ raise_exception('deep ' ~ n) }}{% endmacro %}\n\n{{ f() }}",
    "{{ 'a' }}{# {{ b }} #}{{ 'c' }}",
    "{{ '{{' }}{{ '{#' }}{{ \"{%\" }}",
    "{{- 'a' -}}\n{{- 'b' -}}\n\n c",
    "{{ s",
    "{% if true %}",
    "{% if true %}{% endfor %}",
    "{% endif %}",
    "{{ 1 + }}",
    "{{ (1 }}",
    "{{ 'abc }}",
    "{% for x l %}{% endfor %}",
    "{% nosuchtag %}",
    "{# never closed",
    "{{ a b }}",
    "{{ f(a=1, 2) }}",
    "{% set 1 = 2 %}",
    "{% set none = 2 %}",
    "{% break %}",
    "{% macro f(a=1, b) %}{% endmacro %}",
    "{% include 'x' %}",
    "{% extends 'x' %}",
    "{% import 'x' as y %}",
    "{{ 1 if }}",
    "{{ a..b }}",
    "{{ ] }}",
    "{{ 1 ? 2 }}",
    "",
    "plain text only",
    "{{ f2(*[1, 2]) }}{% macro f2(a, b) %}{{ a }}{{ b }}{% endmacro %}",
    "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(**{'a': 3, 'b': 4}) }}{{ f(1, **{'b': 5}) }}",
    "{{ date_string if date_string is defined else 'none' }}",
    "{%- set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages -%}\n{%- for m in loop_messages -%}\n  {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}\n    {{- raise_exception('roles must alternate') -}}\n  {%- endif -%}\n  {{ m['role'] }}: {{ m['content'] | trim }}\n{% endfor -%}\n",
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}",
    "{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}",
    "{% set a = [1, 2] %}{% set b = a + [3] %}{{ a }}{{ b }}{{ (a + b)|length }}",
    "{% set ns = namespace(items=[]) %}{% for x in l %}{% set ns.items = ns.items + [x * 2] %}{% endfor %}{{ ns.items }}",
    "{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'assistant' %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}",
    "{%- for m in messages %}{%- if loop.last %}{{ m.content }}{%- else %}{{ m.content ~ ',' }}{%- endif %}{%- endfor %}",
    "{% for g, items in rows|groupby('age') %}{{ g }}:{{ items|map(attribute='name')|join }};{% endfor %}",
    "{% for b in l|batch(2) %}[{% for x in b %}{{ x }}{% endfor %}]{% endfor %}",
    "{{ 'a\nb' | indent }}\n{{- '' }}",
    "{% print(n) %}",
    "{% set x = namespace %}{{ x(a=1).a }}",
    "{{ messages[0].content ~ messages[0]['role'] ~ messages[0].get('name', '-') }}",
    "{% if tools is not none and tools %}T{% else %}no{% endif %}{% if tools is defined %}D{% endif %}",
    "{%if true%}a{%endif%}{%-   if   true   -%} b {%-endif-%}",
    "line1\n{%- if true %}\nx{% endif %}\n   {%+ if true %}y{% endif %}\n\t{% if true %}z{% endif %}",
    "{{ 1 }} \n{% if true %}a{% endif %} \n b",
]

SNIPPETS = (
    [("{{ " + e + " }}", _TEXTS) for e in _EXPRESSIONS]
    + [(s, _TEXTS) for s in _STATEMENTS]
    + [("{{ date_string if date_string is defined else 'none' }}", {"extra": {"date_string": "1 Jan 2000"}}),
       ("{{ messages[0]['content'] }}", {}),
       ("{{ tools | tojson }}{{ tools[0].function | tojson(indent=4) }}", {"tools": TOOLS}),
       ("{{ bos_token }}{{ eos_token }}{{ tools }}{{ documents }}{{ add_generation_prompt }}",
        {"trusted": {"bos_token": "<s>", "eos_token": "</s>"}, "add_generation_prompt": False})]
)

# Templates of our own in the manner of those in use: headers around turns, strict alternation,
# a reasoning part that is cut from earlier turns, tool schemas and tool calls.
_HEADERS = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") if strftime_now is defined else "05 Jul 2024" %}
{%- endif %}
{#- The system turn is taken out, so that it can stand in front. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_text = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_text = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Tools: on\\n" }}
{%- endif %}
{{- "Today: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {{- "Answer a call with JSON:\\n" }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_text + "<|turn|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim + '<|turn|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|/head|>\\n\\n{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}<|turn|>" }}
    {%- else %}
        {{- "<|head|>reply<|/head|>\\n\\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|turn|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""

_ALTERNATING = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("user and assistant must take turns: user/assistant/user/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[ASK] " + system_message + "\\n\\n" + message["content"] + "[/ASK]" }}
        {%- else %}
            {{- "[ASK] " + message["content"] + "[/ASK]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("an id needs nine characters") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}
                {{- ", " }}
            {%- else %}
                {{- "]" + eos_token }}
            {%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] in ["tool_results", "tool"] %}
        {%- set content = message.content.content if message.content is mapping else message.content %}
        {{- '[RESULT] {"content": ' + content|string + ", " }}
        {{- '"id": "' + message.tool_call_id + '"}[/RESULT]' }}
    {%- else %}
        {{- raise_exception("only user and assistant roles, and one system message in front") }}
    {%- endif %}
{%- endfor %}
"""

_REASONING = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}
{% set ns = namespace(is_first=false, is_tool=false, is_output_first=true, system_prompt='') %}
{%- for message in messages %}{%- if message['role'] == 'system' %}{% set ns.system_prompt = message['content'] %}{%- endif %}{%- endfor %}
{{ bos_token }}{{ ns.system_prompt }}
{%- for message in messages %}
{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{ '<|User|>' + message['content'] }}{%- endif %}
{%- if message['role'] == 'assistant' and 'tool_calls' in message %}
{%- set ns.is_tool = false -%}
{%- for tool in message['tool_calls'] %}
{%- if not ns.is_first %}{{ '<|Assistant|><|calls|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\\n```json\\n' + tool['function']['arguments'] | tojson + '\\n```<|end call|>' }}{%- set ns.is_first = true -%}
{%- else %}{{ '\\n' + tool['function']['name'] }}{%- endif %}
{%- endfor %}{{ '<|calls end|>' }}
{%- elif message['role'] == 'assistant' %}
{%- if ns.is_tool %}{{ '<|outputs end|>' + message['content'] + eos_token }}{%- set ns.is_tool = false -%}
{%- else %}{% set content = message['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{% generation %}{{ '<|Assistant|>' + content + eos_token }}{% endgeneration %}{%- endif %}
{%- endif %}
{%- if message['role'] == 'tool' %}{%- set ns.is_tool = true -%}
{%- if ns.is_output_first %}{{ '<|outputs|><|output|>' + message['content'] + '<|/output|>' }}{%- set ns.is_output_first = false %}
{%- else %}{{ '\\n<|output|>' + message['content'] + '<|/output|>' }}{%- endif %}{%- endif %}
{%- endfor -%}
{% if ns.is_tool %}{{ '<|outputs end|>' }}{% endif %}
{% if add_generation_prompt and not ns.is_tool %}{{ '<|Assistant|><think>\\n' }}{% endif %}
"""

_SCHEMAS = """{%- macro kind_of(spec) %}
    {%- set names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list"} %}
    {%- if spec.type is defined and spec.type in names %}
        {%- if spec.type == "array" and "items" in spec %}
            {{- "list[" + kind_of(spec["items"]) + "]" }}
        {%- else %}
            {{- names[spec.type] }}
        {%- endif %}
    {%- elif spec.type is iterable and spec.type is not string %}
        {%- for t in spec.type %}{{ kind_of({"type": t}) }}{{ " | " if not loop.last }}{% endfor %}
    {%- else %}
        {{- "Any" }}
    {%- endif %}
{%- endmacro %}
{%- set im_start = "<|im_start|>" %}
{{- bos_token }}
{%- if tools %}
{{- im_start ~ "system\\nYou may call these, as they stand in <tools></tools>: <tools> " }}
{%- for tool in tools %}
{%- set f = tool.function if tool.function is defined else tool %}
{{- '{"type": "function", "function": {"name": "' + f.name + '", "description": "' ~ f.name ~ '(' }}
{%- for name, spec in f.parameters.properties|items %}
{{- name ~ ': ' ~ kind_of(spec) }}{{ ', ' if not loop.last }}
{%- endfor %}
{{- ')' }}
{%- if f.return is defined %}{{ ' -> ' ~ kind_of(f.return) }}{% endif %}
{{- ' - ' ~ f.description ~ '\\n\\n' }}
{%- for name, spec in f.parameters.properties|dictsort %}
{%- if loop.first %}    Args:{{ '\\n' }}{% endif %}
{{- '        ' ~ name ~ '(' ~ kind_of(spec) ~ '): ' ~ (spec.description or 'no description')|trim }}
{%- if spec.enum is defined %}{{ ' (one of ' ~ spec.enum|map('tojson')|join('|') ~ ')' }}{% endif %}
{{- '\\n' if not loop.last }}
{%- endfor %}
{{- '", "parameters": ' ~ (f.parameters|tojson) ~ '}' }}
{{- '\\n' if not loop.last else ' ' }}
{%- endfor %}
{{- "</tools><|im_end|>\\n" }}
{%- endif %}
{%- for message in messages %}
{%- if message.role in ("user", "system") or (message.role == "assistant" and message.tool_calls is not defined) %}
{{- im_start + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- elif message.role == "assistant" %}
{{- im_start + message.role }}
{%- for tool_call in message.tool_calls %}
{{- '\\n<tool_call>\\n{"name": "' ~ tool_call.function.name ~ '", "arguments": ' ~ tool_call.function.arguments|tojson ~ '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == "tool" %}
{%- if loop.previtem and loop.previtem.role != "tool" %}{{ im_start + 'tool\\n' }}{% endif %}
{{- '<tool_response>\\n' + message.content }}
{{- '\\n</tool_response>' if loop.last else '\\n</tool_response>\\n' }}
{%- if not loop.last and loop.nextitem.role != "tool" %}{{ '<|im_end|>' }}{% elif loop.last %}{{ '<|im_end|>' }}{% endif %}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ im_start + 'assistant\\n' }}{% endif %}
"""

_TRUSTED = {"bos_token": "<s>", "eos_token": "</s>"}
_CALL = {"id": "abcdefghi", "type": "function",
         "function": {"name": "get_weather", "arguments": {"zone": "é", "days": 2}}}
_TOOL_TURNS = [
    {"role": "user", "content": " weather? "},
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "content": "{\"t\": 21.5}", "tool_call_id": "abcdefghi"},
    {"role": "assistant", "content": "<think>hm</think>\n\nWarm."},
    {"role": "user", "content": "Thanks <|im_end|>"},
]
_INPUTS = [
    {"messages": MESSAGES, "trusted": _TRUSTED},
    {"messages": MESSAGES, "trusted": _TRUSTED, "tools": TOOLS, "add_generation_prompt": False},
    {"messages": _TOOL_TURNS, "trusted": _TRUSTED, "tools": TOOLS, "extra": {"date_string": "1 Jan 2000"}},
    {"messages": _TOOL_TURNS[:3], "trusted": _TRUSTED, "tools": TOOLS * 2},
    {"messages": _TOOL_TURNS[:2], "trusted": _TRUSTED, "tools": TOOLS},
    {"messages": [MESSAGES[1], MESSAGES[1]], "trusted": _TRUSTED},
]
TEMPLATES = [(t, i) for t in (_HEADERS, _ALTERNATING, _REASONING, _SCHEMAS) for i in _INPUTS]

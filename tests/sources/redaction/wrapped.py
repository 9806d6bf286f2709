"""A secret within a program's output: forms of a name and a value, wrapped in other texts, in any combination.

A form is the signs of a line, with the value between « and »; a colour may stand between any two signs. An envelope is
a program that prints the line as a part of its own text.
"""

from __future__ import annotations

import html
import json
import random
import shlex
import string
import urllib.parse
from collections.abc import Callable

NAMES = (
    *("password", "DB_PASSWORD", "passwd", "dbPassword", "passphrase", "client_secret", "clientSecret", "SECRET_KEY"),
    *("api_key", "API_KEY", "apiKey", "x-api-key", "access_token", "AUTH_TOKEN", "refreshToken", "token", "secret"),
    *("WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db.password", "spring.datasource.password", "PGPASSWORD"),
)

# Each text between | is one sign. N is the name. Q is a quoted value, which may contain anything, escaped.
FORMS = {
    "equals": "N|=|«v»",
    "equals-blanks": "N| |=| |«v»",
    "colon": "N|:| |«v»",
    "colon-tight": "N|:|«v»",
    "colon-blank-before": "N| |:| |«v»",
    "tab-after-colon": "N|:|\t|«v»",
    "tab": "N|\t|«v»",
    "tabs": "N|\t|\t|«v»",
    "columns": "N|   |«v»",
    "columns-wide": "N|                    |«v»",
    "padded-equals": "N|            |=| |«v»",
    "padded-colon": "N|            |:| |«v»",
    "dotted": "N| |..........|: |«v»",
    "pipe": "|| |N| || |«v»| ||",
    "box": "│ |N| │ |«v»| │",
    "double-box": "║ |N| ║ |«v»| ║",
    "markdown": "**|N|**|: |`|«v»|`",
    "markdown-code": "`|N|`|: |`|«v»|`",
    "arrow": "N| |=>| |'|«s»|'",
    "thin-arrow": "N| |->| |«v»",
    "unicode-arrow": "N| |→| |«v»",
    "walrus": 'N| |:=| |"|«d»|"',
    "env": "export |N|=|«v»",
    "env-double": 'export |N|=|"|«d»|"',
    "env-single": "export |N|=|'|«p»|'",
    "env-shell": "export |N|=|«h»",
    "env-ansi-c": "export |N|=|$'|«s»|'",
    "docker-env": "docker run -e |N|=|«v»| image",
    "docker-env-quoted": "docker run --env |'|N|=|«p»|'| image",
    "json": '{|"|N|"|:| |"|«d»|"|, |"n": 1}',
    "json-tight": '{|"|N|"|:|"|«d»|"|,|"n":1}',
    "json-name-value": '{"|name|"|: |"|N|"|, |"value"|: |"|«d»|"}',
    "json-key-value": '{"|key|"|: |"|N|"|, |"value"|: |"|«d»|"}',
    "repr": "{|'|N|'|: |'|«s»|'|, 'n': 1}",
    "repr-bytes": "{|'|N|'|: |b'|«s»|'|, 'n': 1}",
    "repr-secret": "N|=|SecretStr(|'|«s»|'|)",
    "repr-call": "Client(host='x', |N|=|'|«s»|'|, n=1)",
    "repr-argv": "['train.py', |'|--|N|'|, |'|«s»|'|, '--lr', '0.1']",
    "repr-argv-joined": "['train.py', '|--|N|=|«s»|'|, '--lr', '0.1']",
    "repr-tuple": "(|'|N|'|, |'|«s»|'|)",
    "repr-doubled-quote": "N|=|'|«q»|'",
    "sql-doubled": "SET |N| = |'|«q»|'|;",
    "yaml": "N|: |«v»",
    "yaml-double": '  |N|: |"|«d»|"',
    "yaml-single": "  |N|: |'|«q»|'",
    "yaml-list": "- |N|: |«v»",
    "yaml-flow": "{|N|: |«v»|, n: 1}",
    "toml": 'N| = |"|«d»|"',
    "ini": "N|=|«v»",
    "csv": '"|N|"|,|"|«c»|"|,1',
    "xml": "<|N|>|«v»|</|N|>",
    "xml-attribute": '<a |N|=|"|«x»|"| b="1"/>',
    "flag": "run --|N| |«v»| --lr 0.1",
    "flag-equals": "run --|N|=|«v»| --lr 0.1",
    "flag-single": "run --|N| |'|«p»|'| --lr 0.1",
    "flag-double": 'run --|N|=|"|«d»|"| --lr 0.1',
    "query": "GET /x?a=1&|N|=|«u»|&b=2 HTTP/1.1",
    "url-query": "https://x.example.org/y?|N|=|«u»",
    "header": "X-|N|: |«v»",
    "curl-header": "curl -H |'|X-|N|: |«p»|'| https://x.example.org",
    "curl-data": "curl -d |'|a=1&|N|=|«u»|'| https://x.example.org",
    "logfmt": 'level=info |N|=|"|«d»|"| n=1',
    "parenthesis": "connect (|N|: |«v»|)",
    "brackets": "connect [|N|=|«v»|]",
    "angle": "<Connection |N|=|'|«s»|'| at 0x7f>",
    "go": "{User:jane |N|:|«v»| Port:1}",
    "curly-quotes": "N|: |“|«w»|”",
    "curly-single": "N|: |‘|«w»|’",
    "backticks": "N|: |`|«w»|`",
    "quoted-is": "N| is |'|«s»|'",
    "set-to": 'N| set to |"|«d»|"',
    "non-breaking-blank": "N|:|\u00a0|«v»",
    "full-width-colon": "N|：|«v»",
    "full-width-equals": "N|＝|«v»",
}
# These forms have no name: the sign is in the value or around it.
BARE_FORMS = {
    "bearer": "Authorization|:| |Bearer| |«t»",
    "bearer-json": '{"|Authorization|"|: |"|Bearer |«t»|"}',
    "bearer-repr": "{'|Authorization|'|: |'|Bearer |«t»|'}",
    "bearer-repr-bytes": "(b'|authorization|'|, |b'|Bearer |«t»|')",
    "basic": "Authorization|: |Basic |«t»",
    "curl-bearer": 'curl -H |"|Authorization: |Bearer |«t»|"| https://x.example.org',
    "url": "postgres://|jane|:|«u»|@|db.example.org|:5432/x",
    "url-raw": "postgres://|jane|:|«r»|@|db.example.org|:5432/x",
    "curl-user": "curl |-u| |jane|:|«v»| https://x.example.org",
    "curl-user-quoted": "curl -u |'|jane:|«p»|'| https://x.example.org",
    "ghp": "cloning with |«ghp»| now",
    "hf": "login(|'|«hf»|'|)",
    "aws": "key |«aws»| found",
    "sk-ant": "using |«ant»",
    "jwt": "jwt=|«jwt»|;",
    "cookie": "Cookie: |sid=|«t»|; a=b",
    "cookie-dict": "cookies=|{'|sid|': '|«t»|'}",
    "netrc": "machine x login jane |password| |«v»",
    "own-behind-a-blank": "bind_password| |«v»",
    "input": '<input type=|"|password|"| name=|"|x|"| value=|"|«x»|"|>',
    "input-bare": "<input name=|password| value=|«k»|>",
    "signed-in": "connecting as |bob|:|«k»|@|host",
    "oracle": "jdbc:oracle:thin:|scott|/|«k»|@|//h:1521/x",
    "list": '"tokens"|: |[|"|«t»|"|, |"x"|]',
    "pw": "pw|: |«v»",
    "identified": "CREATE USER jane IDENTIFIED BY |'|«q»|'",
}
ENVELOPES: dict[str, Callable[[str], str]] = {
    "plain": lambda line: line,
    "json": lambda line: json.dumps({"level": "info", "msg": line, "n": 1}),
    "json-unicode": lambda line: json.dumps({"msg": line, "n": 1}, ensure_ascii=False),
    "json-go": lambda line: (
        json.dumps({"msg": line}).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    ),
    "json-in-json": lambda line: json.dumps({"log": json.dumps({"msg": line}) + "\n", "stream": "stdout"}),
    "json-lines": lambda line: json.dumps({"log": f"before\n{line}\nafter\n", "stream": "stdout"}),
    "json-line-end": lambda line: json.dumps({"log": line + "\n", "stream": "stdout"}),
    "json-crlf": lambda line: json.dumps({"log": line + "\r\n", "stream": "stdout"}),
    "json-tab": lambda line: json.dumps({"log": f"a\t{line}\tb"}),
    "repr": lambda line: f"got {line!r} back",
    "repr-lines": lambda line: f"got {f'x{chr(10)}{line}{chr(10)}y'!r} back",
    "repr-bytes": lambda line: f"got {(line + chr(10)).encode()!r} back",
    "repr-list": lambda line: f"{['a', line, 'b']}",
    "repr-repr": lambda line: repr(repr(line)),
    "exception": lambda line: f"ValueError: cannot use {line!r}",
    "shell": lambda line: f"+ bash -c {shlex.quote(line)}",
    "html": lambda line: f"<pre>{html.escape(line)}</pre>",
    "time": lambda line: f"2026-11-22 12:00:01,123 - trainer - INFO - {line}",
    "bar": lambda line: f"\r 30%|###   | 3/10 [00:01<00:02]\r{line}\r 40%|####  |",
    "indented": lambda line: f"    {line}",
    "tab": lambda line: f"INFO\t{line}",
    "words-after": lambda line: f"{line} and then more",
    "comma-after": lambda line: f"{line}, n=1",
    "brackets": lambda line: f"[{line}]",
    "quoted": lambda line: f'"{line}"',
    "cri": lambda line: f"2026-11-22T12:00:01.123456789Z stdout F {line}",
    "rank": lambda line: f"[rank0]: {line}",
    "coloured-line": lambda line: f"\x1b[32m{line}\x1b[0m",
}
COLOURS = (
    "\x1b[0m",
    "\x1b[36m",
    "\x1b[1;34m",
    "\x1b[38;5;12m",
    "\x1b[38;2;1;2;3m",
    "\x1b[m",
    "\x1b[K",
    "\x1b(B",
    "\x1b[38:2::1:2:3m",
)
SPECIAL = {
    "v": "_.-+/~!#%^@$*?",
    "s": "'\"\\ ,;:&@/=)]}<>\t",
    "d": "'\"\\ ,;:&@/=)]}<>\t",
    "p": '" ,;:&@/=)]}<>\\',
    "h": "'\" ,;:&@/=)]}<>\\$",
    "q": "'\" ,;:&@/=)]}<>",
    "c": "\"' ,;:&@/=)]}<>",
    "x": "'\" ,;:&@/=<>)]}",
    "u": "'\" ,;:&@/=)]}<>",
    "w": " ,;:@/=)]}",
    "r": "@/:#?!$%",
    "t": "",
    "k": "_.-+~!#%^$*?",
}
_WRITTEN: dict[str, Callable[[str], str]] = {
    "s": lambda text: text.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t"),
    "d": lambda text: json.dumps(text)[1:-1],
    "h": shlex.quote,
    "q": lambda text: text.replace("'", "''"),
    "c": lambda text: text.replace('"', '""'),
    "x": html.escape,
    "u": lambda text: urllib.parse.quote(text, safe=""),
}
_FIXED = {
    "ghp": ("ghp_", 36),
    "hf": ("hf_", 34),
    "ant": ("sk-ant-api03-", 93),
}


def letters(chance: random.Random, length: int) -> str:
    return "".join(chance.choices(string.ascii_letters + string.digits, k=length))


def value(chance: random.Random, kind: str, plain: bool) -> tuple[str, list[str]]:
    """(the value as written, its parts of letters and digits that must not leave)."""
    if kind in _FIXED:
        prefix, length = _FIXED[kind]
        made = letters(chance, length)
        return prefix + made, [made]
    if kind == "aws":
        made = "".join(chance.choices(string.ascii_uppercase + "234567", k=16))
        return "AKIA" + made, [made]
    if kind == "jwt":
        parts = [letters(chance, n) for n in (20, 40, 43)]
        return f"eyJ{parts[0]}.{parts[1]}.{parts[2]}", parts
    parts = [letters(chance, chance.randint(8, 12)) + "7" for _ in range(1 if plain else chance.randint(2, 4))]
    if kind == "t":
        parts = ["".join(parts) + letters(chance, 12)]
    text = parts[0]
    for part in parts[1:]:
        text += chance.choice(SPECIAL[kind]) * chance.choice((1, 1, 1, 2)) + part
    return _WRITTEN.get(kind, str)(text), parts


def wrapped(
    chance: random.Random, form: str, envelopes: list[str], name: str, plain: bool, colours: float
) -> tuple[str, list[str]]:
    """(a line, the parts of its secret)."""
    signs, out, parts = (FORMS.get(form) or BARE_FORMS[form]).split("|"), "", list[str]()
    # An empty sign is the pipe itself.
    n = 0
    while n < len(signs):
        sign = signs[n]
        if sign == "" and n + 1 < len(signs) and signs[n + 1].startswith(" "):
            sign = "|"
        elif sign == "":
            sign = "|" if n == len(signs) - 1 else ""
        if n and chance.random() < colours:
            out += "".join(chance.choices(COLOURS, k=chance.randint(1, 2)))
        if sign.startswith("«"):
            text, parts = value(chance, sign[1:-1], plain)
            out += text
        else:
            out += sign.replace("N", name) if sign == "N" else sign
        n += 1
    for envelope in envelopes:
        out = ENVELOPES[envelope](out)
    return out, parts

"""The secrets in the arguments of programs, whose options and places name nothing elsewhere: ``redis-cli -a``,
``mysql -pWORD``, ``ngrok config add-authtoken``. A program is named in the same line, before the secret.
"""

from __future__ import annotations

import re

from flarelog.sources.redaction.secret.value import PATH, after, bare, is_number, is_random, value_at
from flarelog.sources.redaction.secret.view import BLANKS, Span, end_of, line_before

_FAR = 256  # bytes of a line before an option that may have the program
_REST = rb"\b[^|;&\r\n]*\Z"
# By option: the programs whose password it has, in a word of its own and in the same word.
_PROGRAMS = {
    option: (re.compile(rb"\b(?:%b)%b" % (apart, _REST)), re.compile(rb"\b(?:%b)%b" % (joined or rb"(?!)", _REST)))
    for option, apart, joined in (
        (
            b"-p",
            rb"mongo\w{0,8}|rdesktop|crackmapexec|netexec|nxc|evil-winrm|cqlsh|az|hydra|rabbitmqadmin|couchbase-cli|cbq|influx|sqoop|beeline|htpasswd|databricks"
            rb"|medusa|wp|svn|ccloud|docker|podman|nerdctl|crane|skopeo|buildah|oras|helm",
            rb"mysql\w{0,12}|mariadb[\w-]{0,12}|mycli|7z[arz]?|7zz|x11vnc",
        ),
        (b"-P", rb"sqlcmd|bcp|mosquitto_\w{3,4}|zip|unzip|zipcloak|isql|freebcp|tsql|ab", b""),
        (b"-w", rb"ldap\w{3,10}|slapadd|ldbsearch", rb""),
        (b"-a", rb"redis-cli|valkey-cli|keydb-cli", rb""),
        (b"-W", rb"wbinfo|pg_basebackup_pw", rb""),
    )
}
_LOGIN = re.compile(rb"\b(?:docker|podman|nerdctl|crane|skopeo|buildah|oras|helm)\b")
_PAIRS = {  # options with NAME:PASSWORD, or NAME%PASSWORD
    b"-a": re.compile(rb"\b(?:https?|xhs?|httpie|vegeta|hey)" + _REST),
    b"-A": re.compile(rb"\b(?:ab)" + _REST),
    b"-U": re.compile(rb"\b(?:curl|smb\w{2,8}|rpcclient|net|wmic|nmblookup|smbget)" + _REST),
}
_OF_UNITS = re.compile(rb"journalctl|systemctl|docker|podman|sudo")
_NAMED_USER = re.compile(rb" -(?:u|U|l|-user(?:name)?)[ =][\"']?[A-Za-z][\w.@\\-]{0,64}[\"']? ?\Z")  # -u NAME -p WORD
_PAIR = re.compile(rb"[ \t]{1,4}[\"']?([^\s:%\"'/=]{1,128})[:%](?=[^\s/])")


def option(view: bytes, low: bytes, at: int) -> Span | None:
    """The password after an option of one letter, which begins at *at* + 1."""
    letter = view[at + 1 : at + 3]
    before = line_before(view, at, _FAR)
    pairs = _PAIRS.get(letter)
    if pairs is not None and (pair := _PAIR.match(view, at + 3)) is not None and pairs.search(before):
        return None if is_number(low, pair.end()) else value_at(view, low, pair.end())
    programs = _PROGRAMS.get(letter)
    if programs is None:
        return None
    blank = view[at + 3 : at + 4] in (b" ", b"\t")
    if blank and letter == b"-p" and _NAMED_USER.search(before) and not _OF_UNITS.search(before):
        begin = end_of(BLANKS, view, at + 3)
        if is_random(view, bare(view, begin), 6) and not is_number(low, begin) and not PATH.match(view, begin):
            return value_at(view, low, begin)
    if not programs[not blank].search(before) or (blank and b"login" not in before and _LOGIN.search(before)):
        return None
    begin = end_of(BLANKS, view, at + 3) if blank else at + 3
    if view[begin : begin + 1] in b"-|<>&;" or (blank and is_number(low, begin)):
        return None
    return value_at(view, low, begin) if blank or _LONGER.match(view, begin) else None


_LONGER = re.compile(rb"[\"']|\S{5}")


# Programs that take a secret as an argument without an option, up to it.
_GIVEN = re.compile(
    rb"wpa_passphrase[ \t]{1,4}\S{1,64}[ \t]{1,4}(?=\S{8})"
    rb"|(?:add-)?authtoken[ \t]{1,4}(?=[\"']?[\w-]{20})"
    rb"|authorize-account[ \t]{1,4}\w{12,40}[ \t]{1,4}(?=\w{20})"
    rb"|\boperator[ \t]{1,4}(?:unseal|rekey|generate-root)[ \t]{1,4}"
    rb"(?:-[\w-]{1,24}[= \t]\S{1,64}[ \t]{1,4}){0,3}(?=[\w+/=]{20})"
    rb"|\bauth[ \t]{1,4}(?=[0-9a-f]{8}-[0-9a-f]{4}-)"
    rb"|\brequirepass[ \t]{1,4}(?=\S)|\bmasterauth[ \t]{1,4}(?=\S)"
    rb"|(?:alias[ \t]{1,4}set|config[ \t]{1,4}host[ \t]{1,4}add)[ \t]{1,4}[\w-]{1,64}[ \t]{1,4}"
    rb"https?://\S{1,200}[ \t]{1,4}(?=\S{3,128}[ \t]{1,4}\S{8})"
    rb"|--from-literal[= \t][\"']?[\w.-]{1,128}="
    rb"|--(?:value|body|secret-data|plaintext)[= \t]"
    rb"|/p:(?=\S{4})|-hp(?=\S{6})"
    rb"|add-mask::|issecret=true\]"
    rb"|kv[ \t]{1,4}(?:put|patch)[ \t]{1,4}(?:-[\w-]{1,24}=\S{1,64}[ \t]{1,4}){0,3}"
    rb"[\w./-]{1,128}[ \t]{1,4}[\w.-]{1,64}=(?!@)"
)
_OF_WINDOWS = re.compile(rb"\b(?:\wfreerdp\d?|mstsc|net|schtasks|psexec\w{0,3}|wmic|rar|unrar)\b")
_OF_A_STORE = re.compile(rb"secret|securestring|vault|parameter")


def given(view: bytes, low: bytes, at: int) -> Span | None:
    """The secret that the words at *at* announce to a program."""
    found = _GIVEN.match(low, at + view.startswith(b" ", at))
    if found is None:
        return None
    if found[0] in (b"/p:", b"-hp") and not _OF_WINDOWS.search(line_before(low, at, _FAR)):
        return None
    if found[0].startswith((b"--v", b"--b", b"--s", b"--p")) and not _OF_A_STORE.search(line_before(low, at, _FAR)):
        return None
    if found[0].startswith((b"alias", b"config")):  # a name and a secret, as two words
        return found.end(), end_of(_TWO_WORDS, view, found.end())
    return value_at(view, low, found.end())


_TWO_WORDS = re.compile(rb"\S{3,128}[ \t]{1,4}\S{8,256}")
WORDS = (
    b"authtoken|authorize-account|wpa_passphrase|add-authtoken|operator |auth |requirepass|masterauth|alias set"
    b"|config host|--from-literal| /p:| -hp|--value|--body|--secret-data|--plaintext|add-mask::|issecret=true]"
    b"|kv put|kv patch"
).split(b"|")


def session(view: bytes, low: bytes, at: int) -> Span | None:
    """The session of a password manager or of a web page: a long random value, and no UUID, which is an id."""
    found = _SESSION.match(low, at)
    if found is None:
        return None
    begin = found.end()
    value = _RANDOM.match(view, begin)
    if value is None or _UUID.match(low, begin) or not is_random(view, begin, 24):
        return None
    owner = line_before(view, at, 24)
    told = owner.endswith(b"--") or (view[at : at + 7].isupper() and owner.endswith(b"_"))
    if not told and (_HEX.match(view, begin) or view[begin - 1 : begin] in (b" ", b"\t")):
        return None  # an id
    return value_at(view, low, begin)


_SESSION = re.compile(
    rb"session(?:_[\w]{1,32}|[_-]?(?:key|token|cookie))?(?:[ \t]{0,2}[=:][ \t]{0,2}|[ \t]{1,4})[\"']?"
)
_RANDOM = re.compile(
    rb"(?=[\w.+/=%-]{0,64}?\d)(?=[\w.+/=%-]{0,64}?[A-Za-z])(?:[A-Za-z0-9+/]{24,}|[\w-]{32,}|\.?eJ[\w-]{16,})"
)
_HEX = re.compile(rb"[0-9a-fA-F]{24,64}(?![\w-])")
_UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-")


# The password in a line of PostgreSQL's file: HOST:5432:DATABASE:USER:PASSWORD.
pgpass = after(re.compile(rb":543[2-5]:(?:\*|[\w.-]{1,64}):(?:\*|[\w.@-]{1,64}):(?=[^\s:])"))


def wireguard(view: bytes, low: bytes, at: int) -> Span | None:
    """The private or preshared key in a line of ``wg show dump``; *at*: the end of the line's first key."""
    found = _DUMP.match(view, at)
    if found is None or _BASE64_KEY.search(line_before(view, at + 1, 64)) is None:
        return None
    return (at - 43, at + 1) if found[2] is not None else found.span(1)


_BASE64_KEY = re.compile(rb"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=\Z")
_DUMP = re.compile(
    rb"=\t([A-Za-z0-9+/]{43}=)\t(?:(\d{1,5})\t(?:off|0x[0-9a-f]{1,8})|\(none\)|\[?[\w.:-]{2,64}\]?:\d{1,5})(?=\s|\Z)"
)

"""Find and classify a log's control characters and sequences (ECMA-48), and draw a picture of each.

Besides those of the standard, a character that reorders a line, is invisible, or ends a line in another way than LF
counts as a control character: all of Unicode's format characters that are default-ignorable. The joiners U+200C and
U+200D are shown: Persian, the scripts of India and emoji need them. Format characters with a shape are shown too, as
Arabic's number signs. An unterminated escape sequence ends with its line.
"""

from __future__ import annotations

import codecs
import re

from flarelog.late import late

# Marks, embeddings, overrides and isolates would reorder a line's words. The rest is invisible: soft hyphens, spaces
# without a width, word joiners, the byte order mark, annotations, beams of music, tags.
_FORMAT = (
    "\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f"
)
PARTING = "\x0b\x0c\x85\u2028\u2029"  # line ends other than LF; a view shows each as a blank
CODED = (  # matches the UTF-8 of all control characters beyond ASCII
    rb"\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe1\xa0\x8e|\xe2(?:\x80[\x8b\x8e\x8f\xa8-\xae]|\x81[\xa0-\xaf])"
    rb"|\xef(?:\xbb\xbf|\xbf[\xb9-\xbb])|\xf0(?:\x9b\xb2[\xa0-\xa3]|\x9d\x85[\xb3-\xba])|\xf3\xa0[\x80\x81]"
)
_NOT_PLAIN = late(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|" + CODED)
_SUSPECTS = bytes({*range(32), 0x7F, 0xC2, 0xE2} - {0x09, 0x0A})  # the first bytes of matches of _NOT_PLAIN
_LARGE = 1024  # bytes from which a search for each suspect pays
_TO_SUSPECT = bytes(byte in _SUSPECTS for byte in range(256))
# Their first bytes count as suspects only in data that holds one of them: half of the Arabic letters, each wide comma
# and most emoji begin with the same bytes.
_RARE = (
    *(b"\xd8\x9c", b"\xe1\xa0\x8e", b"\xef\xbb\xbf", b"\xef\xbf\xb9", b"\xef\xbf\xba", b"\xef\xbf\xbb"),
    *(b"\xf0\x9b\xb2", b"\xf0\x9d\x85", b"\xf3\xa0"),
)
RARE_HEADS = bytes({begin[0] for begin in _RARE})
_TO_SUSPECT_RARE = bytes(byte in _SUSPECTS or byte in RARE_HEADS for byte in range(256))
_PARAMETERS = "[0-?]{0,256}[ -/]{0,16}"
TOKENS = late(
    rf"""(?P<text>[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029{_FORMAT}]+)
    | (?:\x1b\[|\x9b)(?P<parameters>{_PARAMETERS})(?P<final>[@-~])
    | (?P<string>\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])
    | (?P<half>(?:\x1b(?:\[{_PARAMETERS}|[ -/]{{0,16}})|\x9b{_PARAMETERS})\Z)
    | (?P<escape>(?:\x1b\[|\x9b){_PARAMETERS}|\x1b[ -/]{{0,16}}[0-~])
    | (?P<control>\r+|\x08+|[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f{_FORMAT}]+|.)""",
    re.VERBOSE | re.DOTALL,
)
# States of one row, each drawn over the one before, of one-column characters. The last state is left out, because more
# of it may come.
_NARROW = "[ -~\xa0-\xac\xae-\u02ff\u2500-\u259f\u2800-\u28ff]"
REDRAWN = late(rf"(?:\r{_NARROW}{{1,1024}}+){{2,256}}(?=\r)")
_COLOUR = r"\x1b\[([0-9;:]{0,256})m"
COLOURS = late(_COLOUR)
_TEXT = rf"[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029{_FORMAT}]*"
PAINTED = late(rf"{_TEXT}(?:{_COLOUR}{_TEXT})*\r?\n")
_PICTURES = {
    **{code: 0x2400 + code for code in range(32) if code not in (0x09, 0x0A)},
    **dict.fromkeys((*range(0x80, 0xA0), *(ord(char) for char in "\u2028\u2029")), 0xFFFD),
    **dict.fromkeys((0xAD, 0x61C, 0x180E, 0x200B, 0x200E, 0x200F), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF, *range(0xFFF9, 0xFFFC)), 0xFFFD),
    **dict.fromkeys((*range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE0080)), 0xFFFD),
    0x7F: 0x2421,
}
"""A visible character for each control character."""
_ASCII_PICTURES = "".join(chr(_PICTURES.get(code, code)) for code in range(0x80))
PICTURE_OF_CR = chr(_PICTURES[0x0D])
STRING_END = late("\x07|\x1b\\\\|\x9c|(?=[\n\x18\x1a])|\x1b(?!\\Z)")


def pictured(text: str) -> str:
    """*text* with a picture in the place of each control character."""
    if text.isascii():  # fifty times as fast as translate
        return codecs.charmap_decode(text.encode(), "strict", _ASCII_PICTURES)[0]
    return text.translate(_PICTURES)


def has_rare(data: bytes) -> bool:
    """Whether *data* holds the beginning of a rare control character."""
    if data.isascii():
        return False
    # A search for one byte takes a fiftieth of a search for two.
    heads = [head for head in RARE_HEADS if head in data]
    return any(begin[0] in heads and all(byte in data for byte in begin) and begin in data for begin in _RARE)


def suspects_of(data: bytes) -> bytes:
    """Bytes with a 1 wherever a control character may begin, else empty. Ten times as fast as a search by pattern."""
    rare = has_rare(data)
    if len(data) > _LARGE and not rare and not any(byte in data for byte in _SUSPECTS):  # twice as fast again
        return b""
    table = _TO_SUSPECT_RARE if rare else _TO_SUSPECT
    return (data.replace(b"\r\n", b"\n\n") if b"\r" in data else data).translate(table)


def plain_until(data: bytes, suspects: bytes, at: int) -> int:
    """The end of the whole lines from *at* on that hold no control character."""
    found = suspects.find(b"\x01", at)
    while found >= 0 and not _NOT_PLAIN.match(data, found):
        found = suspects.find(b"\x01", found + 1)
    return data.rfind(b"\n", at, found if found >= 0 else len(data)) + 1

"""A value whose name is in the lines before it is masked, however the file is read."""

from __future__ import annotations

import pytest

from flarelog.sources.redaction.mask import Rules
from tests.rows import rows

ALL = Rules(("all",))
SECRET = "q1W2e3R4t5Z6"
LONG = "3Fq8ZkT0bXyLw1s9RcVnPmJh2GdA7eUo5iKt4xYbNQ0="

TEXTS = [
    f"- name: DB_PASSWORD\n  value: «{SECRET}»\n",
    f'- name: "DB_PASSWORD"\n  value: "«{SECRET}»"\n',
    f"  - name: API_KEY # of the site\n    value: «{SECRET}»\n",
    f"- name: DB_PASSWORD\n\n  value: «{SECRET}»\n",
    f"- name: DB_PASSWORD\r\n  value: «{SECRET}»\r\n",
    f'{{\n  "name": "DB_PASS",\n  "value": "«{SECRET}»"\n}}\n',
    f"{{'name': 'DB_PASSWORD',\n 'value': '«{SECRET}»',\n 'value_from': None}}\n",
    f"<name>javax.jdo.option.ConnectionPassword</name>\n<value>«{SECRET}»</value>\n",
    f"<env-entry-name>smtpPassword</env-entry-name>\n<env-entry-value>«{SECRET}»</env-entry-value>\n",
    f"<key>password</key>\n  <string>«{SECRET}»</string>\n",
    f".dockerconfigjson: >-\n  «{LONG}»\n",
    f'unseal_keys_b64: «[»\n  "«{LONG}»",\n  "«{LONG}»"\n]\n',
    f"Private-Lines: 2\n«{LONG}»\n«{LONG}»\nPrivate-MAC: 1\n",
    f"-----BEGIN OpenVPN Static key V1-----\n«{LONG}»\n-----END OpenVPN Static key V1-----\n",
    f"-----BEGIN USER NKEY SEED-----\n«{LONG}»\n------END USER NKEY SEED------\n",
]


def shown(data: bytes) -> bytes:
    return ALL.show(lambda begin, end: data[begin:end], 0, len(data), len(data))[0]


def expected(text: str) -> tuple[bytes, bytes]:
    """The text, and the text with its secrets masked."""
    pieces = text.replace("»", "«").split("«")
    masked = ["*" * len(piece) if n % 2 else piece for n, piece in enumerate(pieces)]
    return "".join(pieces).encode(), "".join(masked).encode()


@rows(TEXTS)
def test_the_value_is_masked_and_nothing_else(text: str) -> None:
    data, masked = expected(text)
    for before, after in ((b"", b""), (b"loss=0.1\n" * 2000, b"loss=0.1\n" * 2000), (b"x" * 70_000 + b"\n", b"")):
        assert shown(before + data + after) == before + masked + after


@rows(TEXTS)
def test_the_shown_form_is_the_same_in_any_pieces(text: str) -> None:
    data = expected(text)[0] + b"loss=0.1\n" * 3
    whole = shown(data)
    for size in (1, 7, 30):
        pieces = [
            ALL.show(lambda begin, end: data[begin:end], at, size, len(data))[0] for at in range(0, len(data), size)
        ]
        assert b"".join(pieces) == whole


@pytest.mark.parametrize("more", [0, 1, 3, 100])
def test_what_was_shown_stays_when_the_file_grows(more: int) -> None:
    data = expected(TEXTS[0])[0] + b"value: 3\n" * more
    for size in range(1, len(data)):
        decided = ALL.decided(lambda begin, end, size=size: data[begin : min(end, size)], 0, size)  # type: ignore[misc]
        early, _, _ = ALL.show(lambda begin, end, size=size: data[begin : min(end, size)], 0, decided, size)  # type: ignore[misc]
        assert early == shown(data)[:decided]


INNOCENT = [
    "- name: LEARNING_RATE\n  value: 0.01\n",
    "- name: DB_PASSWORD\n  valueFrom:\n    secretKeyRef:\n",
    "- name: PASSWORD_MIN_LENGTH\n  value: 12\n",
    "- name: MODEL\n  value: bert-base\n",
    'missing_keys: [\n  "fc.weight",\n  "fc.bias"\n]\n',
    'keys: [\n  "encoder.layer.0.attention.self.query.weight",\n]\n',
    "description: |\n  a text of several lines\n",
    "note: >\n  3 rows\n",
    "password: |\nloss=0.1\n",
    '{"name": "loss",\n "value": 0.31}\n',
]


@rows(INNOCENT)
def test_values_of_other_names_stay(text: str) -> None:
    assert shown(text.encode()).replace(b"password: *", b"password: |") == text.encode()

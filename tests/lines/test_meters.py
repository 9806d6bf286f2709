"""Which rows are bars, and how far they are."""

from __future__ import annotations

from flarelog.lines.meters import done, is_bar, words
from tests.rows import together

BARS = {  # each as its program draws it
    "tqdm: 45%|████▌     | 450/1000 [00:10<00:12, 44.4it/s]": ("tqdm: 45% 450/1000 [00:10<00:12, 44.4it/s]", 45.0),
    "450/1000 [00:10<00:12, 44.4it/s]": ("450/1000 [00:10<00:12, 44.4it/s]", 45.0),  # tqdm without room for its bar
    "Training ━━━━━╸━━━━ 12% 0:00:10": ("Training 12% 0:00:10", 12.0),  # rich
    "   ━━━━━━━━━━━ 1.2/3.0 MB 5.1 MB/s": ("1.2/3.0 MB 5.1 MB/s", 40.0),  # pip
    "model.bin     45%[=======>        ] 1.2M  300KB/s": ("model.bin 45%[ ] 1.2M 300KB/s", 45.0),  # wget
    "  50K .......... ..........  7% 1.2M": ("50K 7% 1.2M", 7.0),  # wget into a file
    "##################             45.2%": ("45.2%", 45.2),  # curl
    "[#####     ]  50%": ("[ ] 50%", 50.0),
}
LINES = (
    "accuracy: 45%",
    "acc 0.45% of rows",
    "2026-11-20 08:00:00 INFO step 3/10 done",
    "disk 91% full",
    "-- a heading --",
    "use --share 45%",
    "[rank0] loss=0.5",
)


@together(("text", "is_one"), [*((text, True) for text in BARS), *((text, False) for text in LINES)])
def test_a_bar_is_told_from_text(text: str, is_one: bool) -> None:
    assert is_bar(text) is is_one


@together("text", BARS)
def test_a_bar_is_shown_as_words_and_a_share(text: str) -> None:
    said, share = BARS[text]
    assert " ".join(words(text).split()) == said
    assert done(text) == share


def test_no_row_costs_more_than_a_multiple_of_its_length() -> None:
    for row in ("=" * 100_000, ">" * 100_000, "1" * 100_000, "1/" * 50_000, "━━" * 50_000, "9 " * 50_000):
        is_bar(row)
        done(row)
        words(row)

"""How a receiver divides its budget."""

from __future__ import annotations

from flarelog.delivery.windows import BUSY, Window, Windows


def test_a_call_shares_as_one_however_many_streams_it_has() -> None:
    windows, call, other = Windows(), Window(), Window()
    for _ in range(1000):
        windows.enters(call)
    windows.enters(other)
    assert windows.sharing(call) == windows.sharing(other) == len(windows) == 2
    for _ in range(1000):
        windows.leaves(call)
    assert windows.sharing(other) == len(windows) == 1


def test_who_sends_much_shares_with_those_alone() -> None:
    windows, all_of_them = Windows(), [Window() for _ in range(10)]
    for window in all_of_them:
        windows.enters(window)
    windows.took(all_of_them[0], BUSY)
    windows.look()
    assert windows.sharing(all_of_them[0]) == 1
    assert windows.sharing(all_of_them[1]) == 10
    windows.took(all_of_them[1], BUSY)
    assert windows.sharing(all_of_them[0]) == windows.sharing(all_of_them[1]) == 2
    windows.leaves(all_of_them[1])
    assert windows.sharing(all_of_them[0]) == 1


def test_an_answer_is_due_when_an_eighth_of_the_window_waits_for_one() -> None:
    windows, window = Windows(), Window()
    windows.enters(window)
    window.told = 8000
    windows.took(window, 999)
    assert not window.fills
    windows.took(window, 1)
    assert window.fills

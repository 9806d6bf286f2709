"""Encode and decode the state of a producer and its streams: hints for people.

An invalid hint is clamped or dropped, because it must not end a stream.
"""

from __future__ import annotations

from typing import Any

from flarelog.model import MAX_OFFSET, UNREAD, Activity, Health, News, State
from flarelog.text import legible
from flarelog.v1 import log_pb2 as pb
from flarelog.values import fields_of


def set_news(message: pb.News, news: News) -> None:
    message.clock_ms, message.end = news.clock, news.end
    _set_activity(message, news.activity)
    set_health(message, news.health)


def news_of(message: pb.News) -> News:
    """Decode News. Invalid hints are clamped or dropped, because they must not end a stream."""
    figures = min(message.clock_ms, MAX_OFFSET), min(message.end, MAX_OFFSET)
    return News(*figures, _activity(message), health_of(message))


def _set_activity(message: pb.News | pb.State, activity: Activity | None) -> None:
    if activity is not None:
        message.activity.SetInParent()
        message.activity.processes = min(activity.processes, _MOST_32)
        message.activity.cpu = min(round(activity.cpu * 1000), _MOST_32)
        message.activity.idle_ms = round(activity.idle * 1000)
        if activity.gpu is not None:
            message.activity.gpu = min(round(activity.gpu * 1000), _MOST_32)
        for name in _SHOWN:
            setattr(message.activity, name, legible(getattr(activity, name), MAX_SHOWN))


def _activity(message: pb.News | pb.State) -> Activity | None:
    if not message.HasField("activity"):
        return None
    said = message.activity
    gpu = said.gpu / 1000 if said.HasField("gpu") else None
    shown = (legible(getattr(said, name), MAX_SHOWN) for name in _SHOWN)
    return Activity(said.processes, said.cpu / 1000, min(said.idle_ms, _OLDEST) / 1000, gpu, *shown)


_SHOWN = ("writes", "listens", "waits")
MAX_SHOWN = 200  # characters of a log's name or an address
_FIGURES = tuple(each.name for each in fields_of(Health) if each.name != "unread")
MAX_UNREAD = 300  # characters of the reason why a file is not sent


def set_health(message: pb.News | pb.State | pb.Moment, health: Health | None) -> None:
    if health is None:
        return
    message.health.SetInParent()
    for name in _FIGURES:
        value = getattr(health, name)
        if value is not None:
            setattr(message.health, name, min(MAX_OFFSET, round(value * 1000 if name in Health.FRACTIONS else value)))
    message.health.unread.extend(legible(sentence, MAX_UNREAD) for sentence in health.unread[:UNREAD])


def health_of(message: pb.News | pb.State | pb.Moment) -> Health | None:
    if not message.HasField("health"):
        return None
    said = message.health
    found: dict[str, Any] = {}
    for name in _FIGURES:
        if said.HasField(name):
            value = min(int(getattr(said, name)), MAX_OFFSET)
            found[name] = value / 1000 if name in Health.FRACTIONS else value
    return Health(**found, unread=tuple(legible(sentence, MAX_UNREAD) for sentence in said.unread[:UNREAD]))


MAX_HELD = 2048  # characters of the reason why a producer was paused
MAX_PLACE = 300  # characters of a receiver's host and port
_AGES = ("changed", "heard", "grown", "skew")
_OLDEST = 1 << 50  # milliseconds; a float still holds it exactly
_MOST_32 = (1 << 32) - 1


def set_state(message: pb.State, state: State) -> None:
    message.linked = bool(state.linked)
    message.idle_timeout_ms, message.held = round(state.idle_timeout * 1000), state.held[:MAX_HELD]
    message.rate, message.end = state.rate, state.end
    for name in _AGES:
        value = getattr(state, name)
        if value is not None:
            setattr(message, f"{name}_ms", round(value * 1000))
    message.receiver = state.receiver
    _set_activity(message, state.activity)
    set_health(message, state.health)


def state_of(message: pb.State) -> State:
    said = {name: int(getattr(message, f"{name}_ms")) for name in _AGES if message.HasField(f"{name}_ms")}
    ages = {name: max(-_OLDEST, min(value, _OLDEST)) / 1000 for name, value in said.items()}
    return State(
        linked=message.linked,
        idle_timeout=message.idle_timeout_ms / 1000,
        held=legible(message.held, MAX_HELD),
        rate=min(message.rate, MAX_OFFSET),
        end=min(message.end, MAX_OFFSET),
        activity=_activity(message),
        health=health_of(message),
        receiver=legible(message.receiver, MAX_PLACE),
        **ages,
    )

"""A producer for any threaded program: it sends a site's logs during the runs that the program's bus announces.

Each receiver has its own sidecar, and one that fails does not delay the others.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError

from flarelog.bus import Bus, Notice
from flarelog.errors import FlarelogError, InvalidOption, TimedOut
from flarelog.exit_marks import Exit
from flarelog.integrations.background import Background, Stopped
from flarelog.integrations.embedded import (
    EXIT_TIMEOUT,
    JOIN_TIMEOUT,
    MARGIN,
    REGISTER_TIMEOUT,
    Embedded,
    Found,
    directory,
    seconds,
)
from flarelog.lifecycle import Event
from flarelog.names import independent
from flarelog.placeholders import Placeholder
from flarelog.security.tls import Tls
from flarelog.sender import starts
from flarelog.sender.ending import Sending, reach
from flarelog.sender.options import SidecarOptions
from flarelog.sender.outcome import Outcome
from flarelog.sources.consent import in_force
from flarelog.sources.files.patterns import SourceOptions
from flarelog.sources.files.unmatched import why_left_out
from flarelog.sources.spool.series import of_spools
from flarelog.text import several
from flarelog.values import changed
from flarelog.wire.packing import Compression

log = logging.getLogger(__name__)

KEPT_OUTCOMES = 100  # runs whose outcomes a producer remembers


def _listed(given: str | Sequence[str]) -> tuple[str, ...]:
    """*given* as a tuple: a str is one pattern, not a sequence of letters."""
    return (given,) if isinstance(given, str) else tuple(given)


class _Sending:
    """The logs of one run on their way to one receiver."""

    def __init__(self, options: SidecarOptions, bus: Bus, background: Background) -> None:
        self.options = options
        self._bus = bus
        self._background = background
        self._sending: Sending | None = None
        self._ordered: Callable[[Sending], None] | None = None  # an order given before the Sending existed
        self._over = False  # drain was called
        self.ended = background.start(self._run())

    async def _run(self) -> Outcome:
        self._sending = Sending(self.options, self._bus, owned=True)
        if self._ordered is not None:
            self._ordered(self._sending)
        return await self._sending.run()

    def drain(self, how: Exit | None = None) -> None:
        """Ask the sidecar to end, from any thread: the run has ended, and *how* its process ended, if known."""
        self._over = True
        self._order(lambda sending: sending.drain(how))

    def drain_early(self, how: Exit | None = None) -> None:
        """Ask the sidecar to send the present bytes, from any thread: the run is about to end, and may still write.
        *how*: as for ``drain``.
        """
        if not self._over:
            self._order(lambda sending: sending.drain_early(how))

    def _order(self, order: Callable[[Sending], None]) -> None:
        def give() -> None:
            if self._sending is not None:
                order(self._sending)
            elif self._ordered is None or self._over:
                self._ordered = order

        self._background.soon(give)

    def outcome(self, deadline: float | None) -> Outcome:
        """The result, at the *deadline* at the latest; None: when the sidecar ends by itself."""
        options = self.options
        try:
            return self.ended.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except (TimeoutError, CancelledError):
            self.ended.cancel()
            sentence = (
                f"the logs of run {options.run} were dropped: sending them to {options.receiver} did not end in time"
            )
        except Exception as error:
            sentence = f"the logs of run {options.run} were not sent to {options.receiver}: {error}"
            log.exception("%s; the run continues", sentence)
            return Outcome((), (), FlarelogError(sentence))
        log.error("%s; the run continues", sentence)
        return Outcome((), (), TimedOut(sentence))

    def why(self, log: str) -> str:
        """Why *log* is not available at the receiver; empty: it is. Call it in the loop's thread."""
        if self.ended.done() and not self.ended.cancelled():
            return self.ended.result().why(log, os.path.join(self.options.source.directory, log))
        return "it has not begun yet" if self._sending is None else self._sending.sidecar.why(log)

    def left(self) -> str:
        """A sentence part about the unsent bytes."""

        async def count() -> tuple[int, int]:
            return (0, 0) if self._sending is None else self._sending.sidecar.unsent()

        of = f"run {self.options.run} to {self.options.receiver}"
        try:
            size, logs = self._background.call(count(), MARGIN)
        except (TimeoutError, CancelledError, Stopped):
            return f"an unknown part of {of}"
        return f"{size:,} bytes in {several(logs, 'log')} of {of}"


class Producer(Embedded):
    """Sends the logs under *root* as *site* during a run.

    *receiver*: ``HOST:PORT``, or several; each gets everything, and one that fails does not delay the others. With
    commas, as ``A:1,B:1``, they are ends of one store, of which one is used at a time. *tls*: the site's files, for all
    of them. *include*, *exclude*: one pattern, or several. *redact*: names of the secrets to
    mask. *site_policy*: files that limit what leaves the site, reread at the start of each run, in addition to those in
    FLARELOG_SITE_POLICY. *compression*: on, off, or auto, which means off on loopback. *join_timeout*: seconds from the
    order to drain to the end. *exit_timeout*: maximum seconds by which the exit of a program without END_RUN and
    ``stop()`` is delayed, so that written bytes are sent. *heed*: drain when a receiver says that the run is ending, so
    that it need not wait; bytes written until END_RUN open the streams again. *log_url_template*: the URL of a log in
    your own system, as for ``flarelog status``. *job_name*: the name under which ``flarelog runs`` shows the run beside
    its id. ``outcomes`` has, for each of the last KEPT_OUTCOMES ended runs, the
    result for each receiver.
    """

    def __init__(
        self,
        receiver: str | Sequence[str],
        site: str,
        root: str,
        *,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        redact: str | Sequence[str] = (),
        site_policy: str | Sequence[str] = (),
        bus: Bus | None = None,
        tls: Tls | None = None,
        join_timeout: float = JOIN_TIMEOUT,
        exit_timeout: float = EXIT_TIMEOUT,
        compression: Compression = "auto",
        heed: bool = True,
        log_url_template: str = "",
        job_name: str = "",
    ) -> None:
        super().__init__(bus, exit_timeout, log_url_template)
        self.outcomes: dict[str, list[Outcome]] = {}
        self._receivers = list(independent(_listed(receiver)))
        if not self._receivers:
            raise InvalidOption("receiver is empty: name at least one, as HOST:PORT")
        self._site = site
        self._source = SourceOptions(
            directory("root", root), _listed(include), _listed(exclude), redact=_listed(redact), job=job_name
        )
        self._site_policy = _listed(site_policy)
        self._tls = tls
        self._join_timeout = seconds("join_timeout", join_timeout)
        self._compression = compression
        self._heed = heed
        self._running: dict[str, list[_Sending]] = {}
        self._exits: dict[str, Exit] = {}
        if tls is not None:
            tls.check("client")
        self._options("run")  # raises now what would otherwise fail at the start of a run

    def _source_now(self) -> SourceOptions:
        return changed(self._source, sites=in_force(*self._site_policy), series=of_spools())

    def _options(self, run: str) -> list[SidecarOptions]:
        source, started = self._source_now(), starts.now()  # of this run: the process may be much older
        return [
            SidecarOptions(
                address,
                run,
                self._site,
                source,
                drain_timeout=self._join_timeout,
                drain_limit=self._join_timeout,  # an absolute limit: progress does not extend it
                tls=self._tls,
                compression=self._compression,
                heed=self._heed,
                others=len(self._receivers) > 1,
                started=started,
            )
            for address in self._receivers
        ]

    def _follow(self, background: Background, notice: Notice) -> None:
        match notice.event:
            case Event.START_RUN:
                self._begin(background, notice.run)
            case Event.ABOUT_TO_END_RUN:
                for sending in self._running.get(notice.run, ()):
                    sending.drain_early(self._exits.get(notice.run))
            case Event.END_RUN:
                self._join(notice.run)

    def _begin(self, background: Background, run: str) -> None:
        options, sendings = self._options(run), list[_Sending]()
        if self._running.setdefault(run, sendings) is sendings:  # otherwise another thread, perhaps, has begun it
            sendings += [_Sending(one, self._inner, background) for one in options]

    def _drain(self, run: str) -> None:
        for sending in self._running.get(run, ()):
            sending.drain(self._exits.get(run))

    def _join(self, run: str) -> None:
        self._drain(run)
        self._exits.pop(run, None)
        deadline = time.monotonic() + self._join_timeout + MARGIN
        outcomes = [sending.outcome(deadline) for sending in self._running.pop(run, ())]
        if outcomes:
            self.outcomes[run] = self.outcomes.pop(run, []) + outcomes
            for oldest in list(self.outcomes)[:-KEPT_OUTCOMES]:
                self.outcomes.pop(oldest, None)

    def exited(self, run: str, how: Exit) -> None:
        """Record *how* the process that writes the logs of *run* ended; each log gets a mark after its last byte. Call
        it before END_RUN.
        """
        if run in self._running:
            self._exits[run] = how

    def send_rest(self, run: str, how: Exit | None = None) -> list[Outcome]:
        """Send what is left of *run*, whose writers have ended, and wait for the receipts; sealed streams without new
        bytes stay as they are. Blocks until no receiver has acknowledged anything for *join_timeout* seconds. *how*: as
        for ``exited``. Returns the result for each receiver; empty if this producer is not started.
        """
        if (background := self._background) is None:
            return []
        options = [changed(one, once=True, again=True, drain_limit=None) for one in self._options(run)]
        sendings = [_Sending(one, self._inner, background) for one in options]
        for sending in sendings:
            sending.drain(how)
        return [sending.outcome(None) for sending in sendings]

    def placeholder(self, run: str, log: str = "log.txt") -> Placeholder:
        """The placeholder for *log* of *run*: why no receiver can show it (empty: one can), and how to look at it.
        Callable at any time, also before and after the run. Blocks for a second at most; raises nothing.
        """
        return self._placeholder(str(run), self._site, str(log))

    def _found(self, background: Background, run: str, site: str, log: str) -> Found:
        path = os.path.join(self._source.directory, log)
        if (sendings := self._running.get(run)) is not None:

            async def ask() -> list[Found]:
                return [Found(sending.why(log), sending.options.receiver) for sending in sendings]

            found = background.call(ask(), MARGIN)
        else:
            ended = self.outcomes.get(run, [])[-len(self._receivers) :]
            found = [Found(one.why(log, path), where) for one, where in zip(ended, self._receivers, strict=False)]
        here = [one for one in found if not one.why]  # a receiver that has the log outweighs one that has not
        if found and not here and (why := self._left_out(log)):
            return found[0]._replace(why=why)
        here = here or found
        return here[0] if here else Found("the run has not begun here", self._receivers[0])

    @property
    def _place(self) -> tuple[str, ...]:
        return "--receiver", self._receivers[0]

    def _left_out(self, log: str) -> str:
        """Why a pattern or the present policy excludes *log*, whose file exists; empty: neither does."""
        source = self._source
        with contextlib.suppress(FlarelogError):  # an invalid policy is reported at the end of the run
            source = self._source_now()
        return why_left_out(source, log)

    def unreachable(self) -> list[str]:
        """The reason for each receiver that does not answer. Blocks for REGISTER_TIMEOUT seconds at most."""
        if (background := self._background) is None:
            return []
        asked = [(one, background.start(reach(one.receiver, one.tls))) for one in self._options("run")]
        found, deadline = [], time.monotonic() + REGISTER_TIMEOUT
        for one, answer in asked:
            try:
                found.append(answer.result(max(0.0, deadline - time.monotonic())))
            except (TimeoutError, CancelledError):
                answer.cancel()
                found.append(f"{one.receiver} did not answer within {REGISTER_TIMEOUT:g} s")
        return [sentence for sentence in found if sentence]

    def _leave(self, background: Background) -> None:
        self.drain()
        for run in list(self._running):
            self._join(run)

    def drain(self) -> None:
        for run in list(self._running):
            self._drain(run)

    def end_at_exit(self, began: float) -> list[str]:
        sendings = [sending for run in list(self._running) for sending in self._running.pop(run)]
        with contextlib.suppress(KeyboardInterrupt):  # a user who presses Ctrl-C does not want to wait
            deadline = began + self._exit_timeout
            for sending in sendings:
                with contextlib.suppress(Exception):
                    sending.ended.result(max(0.0, deadline - time.monotonic()))
        return [sending.left() for sending in sendings if not sending.ended.done()]

    def forget(self) -> None:
        super().forget()
        self._running = {}

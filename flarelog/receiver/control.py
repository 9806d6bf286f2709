"""The calls about runs: StartRun, EndRun, GetRun and RemoveRun. With several workers, home answers them."""

from __future__ import annotations

from flarelog.errors import NotFound
from flarelog.lifecycle import Event, RunState
from flarelog.model import Action, Removed
from flarelog.names import run_name, site_name
from flarelog.policy import site_of
from flarelog.receiver.admission import Admission
from flarelog.receiver.callers import Callers
from flarelog.receiver.removals import Removals
from flarelog.receiver.runs import Runs
from flarelog.security.context import Context


class Control:
    """The control calls of one event loop."""

    def __init__(self, callers: Callers, runs: Runs, admission: Admission, removals: Removals) -> None:
        self._callers, self._runs, self._admission, self._removals = callers, runs, admission, removals

    async def start_run(self, run: str, context: Context) -> str:
        async with self._callers.answering(context):
            if (said := await self._home("StartRun", run, context)) is not None:
                return said
            self._callers.guard.asks(context, Action.START_RUN, run_name(run))
            return (await self._runs.announce(run, Event.START_RUN)).value
        raise AssertionError  # ``answering`` aborts a refused call

    async def get_run(self, run: str, context: Context) -> str:
        async with self._callers.answering(context):
            if (said := await self._home("GetRun", run, context)) is not None:
                return said
            identity = self._callers.guard.asks(context, Action.GET_RUN, run_name(run))
            state = await self._runs.recorded(run)
            # A caller that is only a site must be in the run to see its state.
            known = state is RunState.UNKNOWN or self._callers.may_see(identity, run)
            known = known or await self._admission.has(run, site_of(identity))
            return (state if known else RunState.UNKNOWN).value
        raise AssertionError

    async def end_run(self, run: str, context: Context) -> str:
        async with self._callers.answering(context):
            if (said := await self._home("EndRun", run, context)) is not None:
                return said
            self._callers.guard.asks(context, Action.END_RUN, run_name(run))
            if await self._runs.recorded(run) is RunState.UNKNOWN:
                raise NotFound(f"the run {run} is unknown at this receiver")
            await self._runs.announce(run, Event.ABOUT_TO_END_RUN)
        if self._runs.state(run) is RunState.ENDING:
            self._runs.finish(run)
        return self._runs.state(run).value

    async def _home(self, method: str, run: str, context: Context) -> str | None:
        """The answer of home; None: this is home."""
        workers = self._callers.workers
        if workers is None or workers.home:
            return None
        return await workers.relay.ask_home(method, run, context, self._callers.who(context))

    async def remove_run(self, request: tuple[str, str, bool], context: Context) -> Removed:
        run, site, force = request
        callers = self._callers
        async with callers.answering(context):
            if callers.workers is not None and not callers.workers.home:
                return await callers.workers.relay.ask_home_to_remove(request, context, callers.who(context))
            identity = callers.guard.asks(context, Action.DELETE, run_name(run), site_name(site) if site else None)
            found = await self._removals.remove(run, site, force=force)
            callers.guard.removed(identity, context.peer(), run, site, found)
            return found
        raise AssertionError

"""The web page: a run's logs in a browser. An ASGI app, which ``flarelog web`` serves.

Laws that hold here: a log is addressed by bytes, and a row's offset is its identity; a tab that does not read holds up
its own sender alone, and costs a bounded amount; no text of a log, a peer or a request becomes markup, a header or a
log line unescaped; ``safety`` checks each request before other code sees it; a person's reads bear that person's token.
Only this room imports starlette and uvicorn, and only when an app is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flarelog.viewers.web.guarding import Guarded
    from flarelog.viewers.web.options import WebOptions
    from flarelog.viewers.web.origins import Sources


def app(sources: Sources, options: WebOptions, secrets: bytes = b"") -> Guarded:
    """The page as an ASGI app, over *sources*. *secrets*: the key of login secrets that another process signs; without
    it people log in by token alone. Raises NotInstalled where the extra ``web`` is missing.
    """
    from flarelog.viewers.web.application import made

    return made(sources, options, secrets)

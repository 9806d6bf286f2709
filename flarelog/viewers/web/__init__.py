"""The page: what the sites of a run say, in a browser. An ASGI app, which ``flarelog web`` serves.

Laws that hold here: a log is addressed by bytes, and a row's offset is its identity; what a tab does not read holds its
sender up, and costs a bounded amount; nothing a log, a peer or a request says becomes markup, a header or a log line as
it is; each request is checked by ``safety`` before anything looks at it; a person's reads bear that person's token.
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
    it nobody logs in but with a token. Raises NotInstalled where the extra ``web`` is missing.
    """
    from flarelog.viewers.web.application import made

    return made(sources, options, secrets)

"""The web page: a run's logs in a browser. An ASGI app, which ``flarelog web`` serves.

Laws that hold here: a log is addressed by bytes, and a row's offset is its identity; a tab that does not read holds up
its own sender alone, and costs a bounded amount; no text of a log, a peer or a request becomes markup, a header or a
log line unescaped; ``safety`` checks each request before other code sees it; a person's reads bear that person's token.
Only this room imports starlette and uvicorn, and only when an app is made.
"""

"""Signatures of the network: names, certificates, connections, HTTP and gRPC."""

from __future__ import annotations

from flarelog.detect.base import cascade, root, symptom
from flarelog.lines.levels import Level

_FAILED = (
    r"[Ll]ost connection\s*$|[Cc]onnection (?:was )?(?:refused|lost|reset|aborted|closed by|timed out)"
    r"|Connection aborted|i/o timeout"
    r"|[Cc]onnection was reset by peer"
    r"|[Nn]o route to host|(?:Network|Host) is (?:unreachable|down)|Broken pipe|Max retries exceeded"
    r"|Connect(?:ion )?[Tt]imeout"
    r"|Read timed out|[Cc]onnection to \S{1,200} timed out"
)

SIGNATURES = (
    root(
        "grpc.size",
        "essage larger than max|xceeds maximum protobuf size|larger than max",
        r"(?:[Ss]ent|[Rr]eceived) message larger than max \((?P<bytes>\d{1,15}) vs\.? (?P<most>\d{1,15})\)"
        r"|larger than max|exceeds maximum protobuf size",
        "A message of gRPC is larger than one end takes: mostly a model's weights.",
        "Raise the maximum message length at both ends (Flower: grpc_max_message_length), or send less at once.",
        severity=Level.ERROR,
    ),
    cascade(
        "net.dns",
        "Name or service not known|failure in name resolution|nodename nor servname|ould not resolve host"
        "|NameResolutionError|getaddrinfo failed|DNS resolution failed|no such host",
        "",
        "A host's name could not be resolved.",
        "Check the name and the site's DNS.",
    ),
    root(
        "net.tls",
        "CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL_ERROR|SSLError|andshake failed|andshake failure"
        "|certificate has expired|x509: |WRONG_VERSION_NUMBER|SSLEOFError",
        r"CERTIFICATE_VERIFY_FAILED|certificate verify failed|SSL_ERROR_S\w{2,10}|\bSSL(?:EOF)?Error\b"
        r"|(?i:ssl|tls|security|secure)\w{0,30} handshake fail|[Hh]andshake failed with|certificate has expired"
        r"|x509: (?:certificate|cannot)|WRONG_VERSION_NUMBER|alert handshake failure",
        "Two ends did not agree on TLS: a certificate was not accepted, or one end speaks no TLS.",
        "Check the CA, the host's name in the certificate, both clocks, and that both ends use TLS.",
        severity=Level.ERROR,
    ),
    symptom(
        "net.retried",
        "rror|efused| reset|imed out|imeout|eachable|ailed|xceed",
        rf"^(?=.*(?:{_FAILED}|[Cc]onnect(?:ion|ing)?\b.{{0,80}}? failed|[Ff]ailed to connect"
        rf"|(?:[Cc]ould not|[Uu]nable to"
        rf"|couldn't) connect))"
        r".*(?i:\bretry(?!_safe)|\bretries left|try again|\breconnecting\b|will reconnect|thrown while requesting"
        r"|\bwaiting (?:for )?\d{1,7}(?:\.\d{1,3})? ?(?:ms|milliseconds|s|sec|seconds)\b)",
        "A connection failed, and the program tries again.",
        "See whether it goes on; else check the other end, the address, the proxy and the firewall.",
    ),
    cascade(
        "net.unreachable",
        "failed to connect to all addresses|rror|efused| reset|eachable|No route to host|imed out|xceed|ailed"
        "|imeout|losed by|Broken pipe|lost connection|onnection lost",
        rf"failed to connect to all addresses|(?:Error|errno|error|ERROR|failed|Failed"
        rf"|NET - ).{{0,200}}?(?P<what>{_FAILED})"
        rf"|(?:^|: )(?P<said>{_FAILED})"
        r"|\b[Cc]onnection (?:was |has been |is )?(?P<how>refused|reset|aborted|closed|lost|dropped|terminated) by"
        r" (?:the )?(?:remote |foreign |other )?(?:peer|host|server|end|side)\b",
        "The other end does not answer, or ended the connection.",
        "Check that it runs, the address and the firewall.",
        key=("what", "how"),
    ),
    cascade(
        "http.status",
        "rror|orbidden|nauthorized|status code|Too Many Requests|InvalidAccessKeyId|ExpiredToken",
        r"(?<![\w.])(?P<status>[45]\d\d) (?:Client|Server) Error|[Ee]rror[: (]{1,3}(?P<code>[45]\d\d)\b"
        r"|HTTP(?: status)?(?: client| server)? error \((?P<said>[45]\d\d)|(?:[Ss]tatus code"
        r"|HTTP status)[ :=]{1,3}(?P<number>[45]\d\d)\b"
        r"|\b(?:429,? Too Many Requests|403,? Forbidden|401,? Unauthorized|502 Bad Gateway|503 Service Unavailable)"
        r"|\b(?:InvalidAccessKeyId|ExpiredToken|SignatureDoesNotMatch|NoSuchBucket)\b",
        "A server refused a request. 429 means too many, 401 and 403 a key or a right that lacks, 5xx its own trouble.",
        "Check the key and its rights; for 429 and 5xx use fewer requests, or try later.",
        key=("status", "code", "number"),
    ),
    cascade(
        "net.offline",
        "rror|ailed|nable to connect|ould not connect|eachable|ot find the requested",
        r"\bcannot find the requested files in the (?:\w{1,10} ){0,2}(?:cache|path)\b|(?:[Cc]ould not"
        r"|[Uu]nable to|couldn't|[Ff]ailed to(?: \w{1,10})?|can't|cannot) (?:connect|reach"
        r"|establish a? ?(?:new )?connection)\b",
        "No connection could be had.",
        "Check that the other end runs, the address, the proxy and the firewall.",
    ),
    cascade(
        "grpc.status",
        "StatusCode.|rpc error: code = |RPC that terminated with|RST_STREAM|debug_error_string|eadline Exceeded",
        r"StatusCode\.(?P<status>UNAVAILABLE|DEADLINE_EXCEEDED|UNAUTHENTICATED|PERMISSION_DENIED|INTERNAL|UNKNOWN"
        r"|RESOURCE_EXHAUSTED|ABORTED|UNIMPLEMENTED)\b|rpc error: code = (?P<code>(?!OK\b|NotFound\b)\w{2,20})"
        r"|\b[Dd]eadline Exceeded\b|\bRPC that terminated with|\bRST_STREAM with error code|\bdebug_error_string = ",
        "A call of gRPC failed.",
        "UNAVAILABLE: look whether the other end runs. DEADLINE_EXCEEDED: look what it does. Else look at its log.",
        key=("status", "code"),
    ),
)

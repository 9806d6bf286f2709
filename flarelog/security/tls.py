"""Mutual TLS: the files that identify this end, and the CA that it trusts.

Each end has three PEM files: the CA that signed the other end's certificate, its own certificate, and its key; a client
with a token needs the CA alone. The files are checked against each other when a program starts, and reread after a
change; running calls go on if the new files still permit them. gRPC's message about a failed handshake has no reason,
so ``why`` makes a handshake of its own to find it.
"""

from __future__ import annotations

import codecs
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flarelog.contents import demanded
from flarelog.errors import FlarelogError, InvalidFile, InvalidOption
from flarelog.names import parse_address
from flarelog.options import option
from flarelog.proxies import route
from flarelog.text import legible, some
from flarelog.values import frozen
from flarelog.watched import Watched

if TYPE_CHECKING:
    import socket
    import ssl

    import grpc

    from flarelog.security.certificate import Trust

log = logging.getLogger(__name__)

MAX_FILE = 16 << 20  # bytes
_TRUSTED = b"-----BEGIN TRUSTED CERTIFICATE-----"
PROBE = 3.0  # seconds for a handshake that is made to learn a reason

T = TypeVar("T")

EXPIRED, TOO_EARLY = "it has expired", "it is not valid yet"
UNKNOWN_CA = "it does not know the CA that signed"
RENEWED = "new connections use"
_REASONS = {
    "certificate has expired": f"{EXPIRED}: request a new one",
    "certificate is not yet valid": f"{TOO_EARLY}: check this machine's clock, or wait",
    "unable to get local issuer certificate": "the CA in {ca} did not sign it: name that CA's file, or the certificate"
    " that it signed",
    "self-signed certificate": "the CA in {ca} did not sign it: it is self-signed",
    "self-signed certificate in certificate chain": "the CA in {ca} did not sign it: its chain ends in another one",
    "unsuitable certificate purpose": "it was made for the other end: a receiver needs server authentication, every"
    " other program client authentication",
}
_ALERTS = {
    "CERTIFICATE_REQUIRED": "it requires a certificate: give --tls-cert and --tls-key, or connect to its"
    " port for readers with a token (serve --reader-listen)",
    "UNKNOWN_CA": f"{UNKNOWN_CA} {{cert}}",
    "CERTIFICATE_EXPIRED": "it says that {cert} has expired",
    "BAD_CERTIFICATE": "it does not accept {cert}",
    "CERTIFICATE_UNKNOWN": "it does not accept {cert}",
    "UNSUPPORTED_CERTIFICATE": "it says that {cert} was made for another purpose",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
}


@frozen
class Tls:
    """The paths of one end's PEM files: the CA alone only if a token identifies this end. Raises InvalidOption."""

    ca: str = option(
        "",
        "PEM file with the CA certificate of the other end. The option turns TLS on.",
        flag="tls-ca",
        path="file",
    )
    cert: str = option("", "PEM file with the certificate of this end.", flag="tls-cert", path="file")
    key: str = option("", "PEM file with the key of --tls-cert, without a passphrase.", flag="tls-key", path="file")
    server_name: str = ""  # the name in the receiver's certificate, if its address is a tunnel's
    crl: str = ""  # revocation lists of the CAs, for a receiver

    def __post_init__(self) -> None:
        if not self.ca or bool(self.cert) != bool(self.key):
            self.whole()

    def whole(self) -> None:
        """Raises InvalidOption unless all three files are given."""
        missing = [f"--tls-{name}" for name in ("ca", "cert", "key") if not getattr(self, name)]
        if missing:
            raise InvalidOption(f"TLS needs --tls-ca, --tls-cert and --tls-key; missing: {', '.join(missing)}")

    def arguments(self) -> tuple[str, ...]:
        """The files as options of a command."""
        return ("--tls-ca", self.ca, "--tls-cert", self.cert, "--tls-key", self.key)

    def watched(self, load: Callable[[], T]) -> Watched[T]:
        """The result of *load* for the files, reloaded after a change. Raises what *load* raises."""

        def said(happened: str, trouble: FlarelogError | None) -> None:
            if trouble is not None:
                log.error("the certificates %s, but %s; the old certificates stay in use", happened, trouble)
            else:
                log.info("the certificates %s: %s %s", happened, RENEWED, self.cert or self.ca)

        return Watched(tuple(filter(None, (self.ca, self.cert, self.key, self.crl))), load, said)

    def contents(self) -> tuple[bytes, ...]:
        """The contents of the files. Raises InvalidOption."""
        return tuple(readable(path) for path in (self.ca, self.cert, self.key) if path)

    def demand(self) -> None:
        """Raises InvalidOption if a file has the wrong contents; dates and signatures do not matter."""
        _context(self)

    def check(self, end: Literal["server", "client"]) -> dict[str, Any]:
        """Check the files against each other, and return this end's certificate as ssl's ``getpeercert`` does; empty
        for a client without one. Raises InvalidOption with the file, its fault, and what to do.
        """
        import ssl

        if end == "client" and not self.cert:
            self.demand()
            return {}
        self.whole()
        both = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        both[1].check_hostname, both[1].verify_mode = False, ssl.CERT_NONE
        for context in both:
            self.present(context)
        verifier = both[1] if end == "server" else both[0]
        verifier.verify_mode = ssl.CERT_REQUIRED
        self.believe(verifier)
        try:
            return _shake_hands(*both)
        except ssl.SSLCertVerificationError as error:
            reason = _REASONS.get(error.verify_message, error.verify_message)
            raise InvalidFile(f"the certificate {self.cert} cannot be used: {reason.format(ca=self.ca)}") from error
        except ssl.SSLError as error:
            raise InvalidFile(f"the certificate {self.cert} cannot be used: {error.reason or error}") from error

    def present(self, context: ssl.SSLContext) -> None:
        """Let *context* present this end's certificate. Raises InvalidOption."""
        import ssl

        for path in (self.cert, self.key):
            readable(path)  # an unreadable file is then named in the error
        try:
            # Without a password, a key with a passphrase would prompt at the terminal.
            context.load_cert_chain(self.cert, self.key, password=lambda: b"")
        except (ssl.SSLError, ValueError) as error:
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
                raise InvalidFile(f"the key {self.key} does not belong to the certificate {self.cert}") from error
            raise InvalidFile(
                f"{self.cert} and {self.key} are not a certificate and its unencrypted key in PEM"
            ) from error

    def believe(self, context: ssl.SSLContext) -> None:
        """Let *context* trust the CA. Raises InvalidOption."""
        import ssl

        readable(self.ca)
        try:
            context.load_verify_locations(self.ca)
        except ssl.SSLError as error:
            raise InvalidFile(f"{self.ca} holds no CA certificate in PEM") from error

    # --- gRPC's credentials

    def channel_credentials(self) -> grpc.ChannelCredentials:
        import grpc  # reading a store or a pipe needs no gRPC

        own = (readable(self.key), readable(self.cert)) if self.cert else (None, None)
        return grpc.ssl_channel_credentials(readable(self.ca), *own)

    def configuration(self) -> grpc.ServerCertificateConfiguration:
        """The present files, for gRPC. Raises InvalidOption."""
        import grpc

        self.check("server")
        return grpc.ssl_server_certificate_configuration([(readable(self.key), readable(self.cert))], readable(self.ca))


def why(address: str, tls: Tls | None, proxy: str = "") -> str:
    """Why a TLS connection to the receiver at *address* fails although the port answers; empty if it does not answer.

    Blocks for PROBE seconds at most. *tls*: this end's files; None without TLS. *proxy*: the value of ``--proxy``.
    """
    import ssl

    agreed = False
    wanted = _wanted(address, tls)
    try:
        with _plain(address, proxy) as plain, _context(tls).wrap_socket(plain, server_hostname=wanted) as shaken:
            agreed = True
            # With TLS 1.3 a server refuses a certificate only now; a receiver that accepts it sends first.
            if tls is not None and not shaken.recv(1):
                return _refused("", tls)
    except InvalidOption as error:
        return str(error)
    except ssl.SSLCertVerificationError as error:
        if "mismatch" in error.verify_message and tls is not None:
            return _for_others(address, tls, proxy)
        reason = _REASONS.get(error.verify_message, error.verify_message).format(ca=tls.ca if tls is not None else "")
        return f"its certificate is not trusted: {reason}"
    except ConnectionResetError:  # a reset before the handshake ended tells nothing
        return _refused("", tls) if agreed and tls is not None else ""
    except ssl.SSLError as error:
        if error.reason == "UNEXPECTED_EOF_WHILE_READING" or isinstance(error, ssl.SSLEOFError):
            return ""
        return _refused(error.reason or str(error), tls) if tls is not None else ""
    except OSError:
        return ""
    want = "it requires TLS: give --tls-ca, and --tls-cert and --tls-key or, at the port for readers, --token-file"
    return want if tls is None else ""


def _plain(address: str, proxy: str) -> socket.socket:
    """A connection to the receiver, on the same way as gRPC's. Raises OSError."""
    from flarelog.dial import dial

    return dial(address, PROBE, route(address, proxy).proxy)


def _wanted(address: str, tls: Tls | None) -> str:
    """The name that the receiver's certificate must have."""
    return (tls.server_name if tls is not None else "") or parse_address(address)[0].strip("[]")


def _context(tls: Tls | None) -> ssl.SSLContext:
    """What a client with *tls* demands. Raises InvalidOption."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["h2"])
    if tls is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    tls.believe(context)
    if tls.cert:
        tls.present(context)
    return context


def certificate_of(address: str, tls: Tls, proxy: str = "", *, any_name: bool = False) -> dict[str, Any]:
    """The receiver's certificate, which the CA signed, as ssl's ``getpeercert`` returns it. *any_name*: even if it is
    for another name. Raises InvalidOption and OSError.
    """
    context = _context(tls)
    context.check_hostname = not any_name
    with (
        _plain(address, proxy) as plain,
        context.wrap_socket(plain, server_hostname=_wanted(address, tls)) as shaken,
    ):
        return dict(shaken.getpeercert() or {})


def names_in(certificate: Mapping[str, Any]) -> str:
    return some([legible(value) for _, value in certificate.get("subjectAltName", ())], 8)


def _for_others(address: str, tls: Tls, proxy: str) -> str:
    """Which names the receiver's certificate has instead of the wanted one."""
    try:
        names = names_in(certificate_of(address, tls, proxy, any_name=True))
    except OSError:
        names = ""
    names = f"only for {names}" if names else "for another name"
    return f"its certificate is {names}, and not for {_wanted(address, tls)}: connect to a name that it has"


def _refused(reason: str, tls: Tls) -> str:
    """Why the other end refuses this one. *reason*: ssl's, empty if the other end only closes the connection.

    A receiver's alert about a certificate that is out of date names its CA.
    """
    alert = next((each for each in _ALERTS if each in reason), "") if reason else "UNKNOWN_CA"
    if not tls.cert and not reason:
        alert = "CERTIFICATE_REQUIRED"
    if not alert:
        return f"the TLS handshake fails: {reason}"
    if alert not in ("CERTIFICATE_REQUIRED", "WRONG_VERSION_NUMBER") and (late := _out_of_date(tls)):
        return f"it refuses {tls.cert}: {late}"
    return _ALERTS[alert].format(cert=tls.cert)


def _out_of_date(tls: Tls) -> str:
    """Why this end's certificate is not valid now, and what to do; empty if its dates are no reason."""
    try:
        tls.check("client")
    except InvalidFile as error:
        reasons = _REASONS["certificate has expired"], _REASONS["certificate is not yet valid"]
        return next((each for each in reasons if str(error).endswith(each)), "")
    return ""


class ServerCertificates:
    """A receiver's certificates and trusted CAs, for all its ports.

    Raises InvalidOption if the files are unusable, and NotInstalled.
    """

    def __init__(self, tls: Tls) -> None:
        from flarelog.security.certificate import Trust  # needs a package that only receivers with TLS have
        from flarelog.security.revocation import demand_current

        if tls.crl:
            demand_current(tls.ca, tls.crl, time.time())
        # One load, so that handshakes and later checks trust the same CAs.
        self._files = tls.watched(lambda: (tls.configuration(), Trust(tls.ca, tls.crl)))
        self._lock = threading.Lock()
        self.connections = 0
        """Handshakes begun at any of the ports, whatever their outcome."""

    def credentials(self, *, demanded: bool) -> grpc.ServerCredentials:
        """The credentials of a port. *demanded*: require certificates of the CA; otherwise certificates are ignored.

        A change of the files is noticed at each handshake.
        """
        import grpc

        given = self._files.look()[0]

        def fetch() -> Any:  # may return None, which gRPC's types omit
            nonlocal given
            with self._lock:
                self.connections += 1
            before, given = given, self._files.look()[0]
            return None if given is before else given

        return grpc.dynamic_ssl_server_credentials(given, fetch, require_client_authentication=demanded)

    @property
    def trust(self) -> Trust:
        """The present trust; the same object until it changes."""
        return self._files.look()[1]

    def reread(self) -> None:
        """Reread the files even if they seem unchanged, and log the result."""
        self._files.look(anyway=True)


def readable(path: str) -> bytes:
    """The contents of the PEM file at *path* without a byte order mark, as gRPC needs it. Raises InvalidOption."""
    raw = demanded(path, MAX_FILE, regular=True)[1]  # OpenSSL reads it once more
    if _TRUSTED in raw:  # it has additional data, and gRPC finds no certificate in it
        import shlex  # most files are plain ones

        raise InvalidFile(
            f"{path} holds a TRUSTED CERTIFICATE, a form of OpenSSL's own: write it as a plain one with"
            f" openssl x509 -in {shlex.quote(path)} -out FILE"
        )
    return raw.removeprefix(codecs.BOM_UTF8)


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, Any]:
    """Make a handshake in memory, and return the certificate that one of the ends verifies. Raises ssl.SSLError."""
    import ssl

    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
    ]
    waiting = list(ends)
    while waiting:
        for end in waiting[::-1]:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(end)
    return dict(ends[0].getpeercert() or ends[1].getpeercert() or {})

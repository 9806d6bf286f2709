"""Where the API of Kubernetes is, and what is wanted from it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flarelog.contents import demanded, text_of
from flarelog.errors import InvalidFile, InvalidOption
from flarelog.options import option
from flarelog.text import legible
from flarelog.values import frozen

if TYPE_CHECKING:
    import ssl

MOST = 1 << 20  # bytes of a token, and of a CA

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
USUAL = (
    *("batch.kubernetes.io/*", "job-name", "jobset.sigs.k8s.io/*", "training.kubeflow.org/*", "trainer.kubeflow.org/*"),
    *("app", "app.kubernetes.io/name", "app.kubernetes.io/instance"),
)
"""The keys of labels that say which job or app a pod is of."""


@frozen
class KubernetesOptions:
    """Where the API is. Within a pod nothing has to be given. Raises InvalidOption."""

    api: str = option(
        "", "Address of the Kubernetes API, https only.  [default: that of the pod's own cluster]", metavar="URL"
    )
    api_token: str = option("", "File with the token for the API.  [default: the service account's]", path="file")
    api_ca: str = option("", "File with the CA of the API.  [default: the service account's]", path="file")
    kubelet: str = option(
        "",
        "Address of the node's kubelet, https only.  [default: NODE_IP, port 10250; else the API's proxy]",
        metavar="URL",
    )
    kubelet_ca: str = option("", "File with the CA of the kubelet's certificate.  [default: --api-ca]", path="file")
    node: str = option("", "Name of this node in the API.  [default: NODE_NAME, else --site]")
    namespace: str = option("", "Namespace of the pods, with --source api.  [default: all namespaces]")
    pod_label: tuple[str, ...] = option(
        (), "Pass on labels of pods whose keys match. Repeatable.  [default: those of jobs and apps]", metavar="GLOB"
    )

    @property
    def url(self) -> str:
        """The address; empty outside of a cluster, where none was given."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        return self.api or (f"https://{f'[{host}]' if ':' in host else host}:{port}" if host else "")

    @property
    def labels(self) -> tuple[str, ...]:
        """Globs: the keys of the labels that readers get."""
        return self.pod_label or USUAL

    @property
    def is_there(self) -> bool:
        """Whether there is an API to ask: it was given, or this is a pod with a service account."""
        return bool(self.api or (self.url and os.path.exists(self.token)))

    @property
    def kubelet_url(self) -> str:
        """The address of the kubelet; empty: not known."""
        host = os.environ.get("NODE_IP", "")
        return self.kubelet or (f"https://{f'[{host}]' if ':' in host else host}:10250" if host else "")

    def __post_init__(self) -> None:
        if self.kubelet and not self.kubelet.startswith("https://"):
            raise InvalidOption(f"kubelet must be an address as https://HOST:10250, not {self.kubelet!r}")
        if self.api and not self.api.startswith("https://"):
            raise InvalidOption(f"api must be an address as https://HOST:PORT, not {self.api!r}")

    def demand(self) -> None:
        """Raises InvalidFile if the token, or a CA, cannot be used."""
        self.authorization()
        for ca in (self.kubelet_ca or self.ca, self.ca if self.url else ""):
            if ca:
                trusted(ca)

    def authorization(self) -> str:
        """The text of the token. Raises InvalidFile."""
        what = f"the token for the Kubernetes API, {legible(self.token)},"
        text = text_of(self.token, MOST, what)[1].strip()
        if not (text and text.isascii() and text.isprintable()):
            raise InvalidFile(f"{what} {'has more than a token' if text else 'is empty'}: give its file to --api-token")
        return text

    @property
    def token(self) -> str:
        return self.api_token or f"{ACCOUNT}/token"

    @property
    def ca(self) -> str:
        return self.api_ca or f"{ACCOUNT}/ca.crt"


def trusted(path: str) -> ssl.SSLContext:
    """A TLS context that trusts the CA in the file at *path*. Raises InvalidFile."""
    import ssl  # late: commands that never ask the API start without it

    what = f"the CA of the Kubernetes API, {legible(path)},"
    demanded(path, MOST, what)
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise InvalidFile(f"{what} is no certificate: {getattr(error, 'reason', error)}") from error

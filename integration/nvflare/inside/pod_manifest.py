"""The pod that NVFlare's Kubernetes launcher describes for a job, with the ``pod_template`` of docs/nvflare.md.

As a program, in NVFlare's environment, it prints the manifest of the job that its argument describes as JSON.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from nvflare.apis.job_def import DEFAULT_STUDY
from nvflare.app_opt.job_launcher.k8s_launcher import WORKSPACE_MOUNT_PATH, K8sJobHandle
from nvflare.app_opt.job_launcher.study_runtime import (
    STUDY_RUNTIME_FILE,
    load_study_runtime_file,
    resolve_study_runtime,
)

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "nvflare.md"


def recipe() -> str:
    """The study_runtime.yaml of the page."""
    (found,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


def manifest(job: str, text: str, secret: str = "kit", **config: Any) -> Any:
    """What NVFlare makes of *text*, a study_runtime.yaml, for the job with the id *job*, and of its *config*."""
    with tempfile.TemporaryDirectory() as workspace:
        path = Path(workspace, STUDY_RUNTIME_FILE)
        path.parent.mkdir()
        path.write_text(text)
        runtime = resolve_study_runtime(
            load_study_runtime_file(str(path), launcher_mode="k8s"), DEFAULT_STUDY, str(path)
        )
    mounts = [
        {"name": "workspace-job", "mountPath": WORKSPACE_MOUNT_PATH},
        {"name": "startup-kit", "mountPath": f"{WORKSPACE_MOUNT_PATH}/startup", "readOnly": True},
    ]
    volumes = [
        {"name": "workspace-job", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "startup-kit", "secret": {"secretName": secret}},
    ]
    given = {
        "name": f"job-{job}",
        "container_name": f"container-{job}",
        "command": "nvflare.private.fed.app.client.worker_process",
        "image": "nvflare:2.9",
        "require_main_container": True,
        **config,
    }
    given["volume_list"] = volumes + given.get("volume_list", [])
    given["volume_mount_list"] = mounts + given.get("volume_mount_list", [])
    return K8sJobHandle(
        job, None, given, python_path="python3", pod_manifest_template=runtime.pod_template
    ).get_manifest()


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    text = recipe()
    for old, new in asked.pop("instead").items():
        text = text.replace(old, new)
    print(json.dumps(manifest(asked.pop("job"), text, **asked)))

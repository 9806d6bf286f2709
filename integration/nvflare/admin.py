"""An admin's requests to a project, through NVFlare's own API: the command line of 2.7 cannot wait or abort.

python admin.py KIT submit JOB-DIRECTORY    prints the job's id
python admin.py KIT status JOB              prints NVFlare's name for the job's state
python admin.py KIT abort JOB
"""

from __future__ import annotations

import os
import sys

from nvflare.fuel.flare_api.flare_api import new_secure_session


def main(kit: str, what: str, which: str) -> None:
    session = new_secure_session(os.path.basename(kit), kit, timeout=30.0)
    try:
        if what == "submit":
            print(session.submit_job(which))
        elif what == "status":
            print(session.get_job_meta(which)["status"])
        else:
            print(session.abort_job(which))
    finally:
        session.close()


main(*sys.argv[1:])

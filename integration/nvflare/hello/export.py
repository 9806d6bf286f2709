"""Export a job of NVFlare's recipes with flarelog's components: ``python export.py DIRECTORY``."""

from __future__ import annotations

import sys
from pathlib import Path

from nvflare.app_common.np.recipes.fedavg import NumpyFedAvgRecipe

from flarelog.integrations.nvflare import FlarelogProducer, FlarelogReceiver

recipe = NumpyFedAvgRecipe(
    name="hello",
    min_clients=2,
    num_rounds=3,
    model=[[1.0, 2.0], [3.0, 4.0]],
    train_script=str(Path(__file__).with_name("training.py")),
)
job = recipe._job  # recipes of 2.9.0 lack these methods; their job has them
job.set_app_packages(["flarelog"])
job.to_server(FlarelogReceiver(), id="flarelog_receiver")
job.to_clients(FlarelogProducer(), id="flarelog_producer")
recipe.export(sys.argv[1])

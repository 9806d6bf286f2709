"""The training of that job: it adds one to each weight, and prints so."""

from __future__ import annotations

import nvflare.client as flare

flare.init()
site = flare.system_info()["site_name"]
print(f"site {site} begins")
while flare.is_running():
    model = flare.receive()
    if model is None:
        break
    print(f"site {site} trains in round {model.current_round}")
    params = {name: weights + 1 for name, weights in model.params.items()}
    flare.send(flare.FLModel(params=params, metrics={"loss": 1.0 / (1 + model.current_round)}))

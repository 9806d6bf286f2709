"""The wire: what of the model goes over it, its calls, and what packs them."""

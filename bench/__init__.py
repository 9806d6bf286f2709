"""The measurements behind README's performance table; ``python -m bench`` takes them all."""

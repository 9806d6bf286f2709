"""The workers: several processes that form one receiver."""

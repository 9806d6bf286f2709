"""Who somebody is and what they may do: certificates, tokens, files that are read again, refusals."""

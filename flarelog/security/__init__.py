"""Authentication and authorization: certificates, tokens, reread files, refusals."""

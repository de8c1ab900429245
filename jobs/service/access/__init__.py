"""Who may do what over HTTP: hosts, origins, tokens, form tokens, and headers for browsers."""

"""Programs that write pages of docs/; no part of the product."""

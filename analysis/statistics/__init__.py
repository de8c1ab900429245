"""Statistics on plain arrays; nothing here knows a frame or a home."""

"""The WebSocket protocol, as both ends see it."""

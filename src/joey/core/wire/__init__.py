"""The WebSocket protocol, shared by server and client."""

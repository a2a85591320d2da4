"""The server: HTTP, WebSocket and IPC."""

"""Ports: the interfaces through which the engine and the tools use files, programs and services."""

"""Adapters to model services."""

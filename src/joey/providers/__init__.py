"""Adapters to the services that models are reached through."""

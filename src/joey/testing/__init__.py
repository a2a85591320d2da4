"""Test doubles, public on purpose: a scripted model, in process or on loopback.

from joey.testing.script import Turn, call, say
from joey.testing.scripted_provider import ScriptedProvider
from joey.testing.server import ModelServer
"""

"""Configuration on disk: settings, profiles, modes, rules, skills, hooks."""

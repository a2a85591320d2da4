"""The files of a workspace at earlier moments, in a git repository of our own.

Start at `store.py`. The repository is a shadow: its work tree is the workspace, everything else
about it (objects, index, refs, configuration) is in a folder under `JOEY_HOME`, which no git of
the user's ever sees. Bytes go in and come out unchanged, whatever `.gitattributes` ask for.
"""

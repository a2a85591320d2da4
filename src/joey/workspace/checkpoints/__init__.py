"""Checkpoints: the files of a workspace at earlier times, in a shadow git repository.

Start at `store.py`. The work tree of the shadow repository is the workspace; everything else about
it (objects, index, refs, configuration) is in a directory under `JOEY_HOME`, which no git of the
user's ever sees. Files are stored and restored byte for byte, whatever `.gitattributes` ask for.
"""

"""Checkpoints: the files of a workspace at earlier times, in a shadow git repository.

Start at `store.py`. The work tree of the shadow repository is the workspace; everything else
(objects, index, refs, configuration) is in a directory under `JOEY_HOME`, which the user's own git
never sees. Files are stored and restored byte for byte, whatever `.gitattributes` ask for.
"""

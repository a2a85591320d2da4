"""The recording proxy: HTTP pass-through, spool, book of exchanges, and their analysis."""

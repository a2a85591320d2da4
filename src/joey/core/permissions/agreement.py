"""Two readers of the shell's grammar, written by different people, must see the same words.

A line that the rules would let run is read once more by a full grammar of the shell. Where the two
readings differ in a single word, or the second one sees anything but plain words, fails, or is not
there, a person decides: no mistake in one reader is enough to let something through.
"""

from __future__ import annotations

from collections.abc import Callable

from joey.core.permissions.decisions import Allow, Ask
from joey.core.permissions.shell import Chain, plain_chain

SecondReading = Callable[[str], Chain | None]
"""The commands of a line that is plain by the full grammar; None for any other."""

MOST_COMMANDS = 256
"""In one line; both readers stay fast, and nobody writes more by hand."""


def confirmed(line: str, verdict: Allow, read: SecondReading | None) -> Allow | Ask:
    """The verdict, if the second reading bears it out."""
    if read is None:
        return Ask("there is no grammar of the shell to check it against")
    chain = plain_chain(line)
    if chain is None or len(chain) > MOST_COMMANDS:
        return Ask("it is more than the rules can judge")
    if read(line) != chain:
        return Ask("its words can be understood in more than one way")
    return verdict

"""What is remembered of a command's output: its beginning, its end, and how much there was."""

from __future__ import annotations

from joey.core.terminal_text import incomplete_end

HEAD = 128 * 1024
TAIL = 256 * 1024


class OutputBuffer:
    """Bytes in, text out, in bounded memory: at most ``head + 2 * tail`` bytes are held.

    Everything is addressed by its offset in the whole output. What lies between the kept head
    and the kept tail is gone, and every text that would have shown it says how much is missing.
    """

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._taken = 0
        self._closed = False
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) > self._tail_limit:
            self._tail.clear()
            data = data[-self._tail_limit :]
        self._tail += data
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def close(self) -> None:
        """No more bytes follow: a character that is still incomplete will stay so."""
        self._closed = True

    def preview(self, budget: int) -> str:
        """All of the output if it fits in `budget` bytes, else half of that from each end."""
        return self._window(0, self.total, budget)

    def take_new(self, budget: int) -> str:
        """What came since the last call, in the form of `preview`."""
        end = self.total
        if not self._closed:
            end -= incomplete_end(self._until(max(self._taken, end - 3), end))
        text = self._window(self._taken, end, budget)
        self._taken = end
        return text

    def _window(self, start: int, end: int, budget: int) -> str:
        if end - start <= budget and len(whole := self._from(start, end)) == end - start:
            return _decode(whole)
        head_size = budget // 2
        first = self._from(start, min(start + head_size, end))
        first = first[: len(first) - incomplete_end(first)]
        rest_start = max(start + len(first), end - (budget - head_size))
        last = self._until(rest_start, end)
        last = last[_continued(last) :]
        omitted = end - start - len(first) - len(last)
        return f"{_decode(first)}\n[...{omitted} bytes omitted...]\n{_decode(last)}"

    def _from(self, start: int, end: int) -> bytes:
        """As much of [start, end) as is kept, without a gap, from `start` on."""
        found = bytes(self._head[start:end])
        reached, tail_start = start + len(found), self.total - len(self._tail)
        if tail_start <= reached < end:
            found += self._tail[reached - tail_start : end - tail_start]
        return found

    def _until(self, start: int, end: int) -> bytes:
        """As much of [start, end) as is kept, without a gap, up to `end`."""
        tail_start = self.total - len(self._tail)
        if start >= tail_start or tail_start > len(self._head):
            return bytes(self._tail[max(0, start - tail_start) : max(0, end - tail_start)])
        return self._from(start, end)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _continued(data: bytes) -> int:
    """How many bytes at the start are the end of a character."""
    return next((i for i, byte in enumerate(data[:3]) if byte & 0xC0 != 0x80), min(3, len(data)))

"""What a text area asks of its text for every line that it paints, known without counting."""

from __future__ import annotations

from textual.widgets.text_area import Document, EditResult, Location, WrappedDocument


class KnownText(Document):
    """The whole text is put together once per change."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._whole: str | None = None

    @property
    def text(self) -> str:
        if self._whole is None:
            self._whole = super().text
        return self._whole

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        self._whole = None
        return super().replace_range(start, end, text)


class KnownHeight(WrappedDocument):
    @property
    def height(self) -> int:
        return len(self._offset_to_line_info)

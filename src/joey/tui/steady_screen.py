"""A screen on which the mouse cannot take the keyboard focus away."""

from __future__ import annotations

from textual import events
from textual.errors import NoWidget
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget


class SteadyScreen(Screen[None]):
    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        """Skip widgets removed since the last layout: Textual would start a selection in the
        parent that they no longer have."""
        widget, offset = super().get_widget_and_offset_at(x, y)
        return (None, None) if widget is not None and widget.parent is None else (widget, offset)

    def _forward_event(self, event: events.Event) -> None:
        if isinstance(event, events.MouseEvent) and not event.is_forwarded:
            self._release_lost_mouse()
        super()._forward_event(event)

    def _release_lost_mouse(self) -> None:
        """A widget that was hidden or removed during a drag keeps the mouse captured, and Textual
        clears the focus at every event that it cannot deliver."""
        captor = self.app.mouse_captured
        if captor is None:
            return
        try:
            self.find_widget(captor)
        except NoWidget:
            self.app.capture_mouse(None)

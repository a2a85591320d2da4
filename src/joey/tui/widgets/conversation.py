"""The conversation widget: all blocks of a task in one scrollable view.

Blocks are drawn line by line when they come into view. A block that was never visible has an
estimated height; when the estimate is corrected, the visible lines stay where they are. Many
events between two frames lead to one refresh, of the lines that changed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from joey.core.events import Event, TaskRewound
from joey.presentation.text import Piece
from joey.tui.blocks.block_layout import Block, BlockHeights, DrawContext
from joey.tui.blocks.styled_text import COMPONENT_CLASSES, CONVERSATION_CSS, Palette, build_palette
from joey.tui.blocks.text import build_error_block, build_note_block, build_rich_text_block
from joey.tui.blocks.timeline import FullOutputReader, Timeline

if TYPE_CHECKING:
    from joey.client.session import Session


FRAME_INTERVAL_S = 1 / 20
MAX_CACHED_BLOCKS = 300
MORE_BELOW_HINT = " ↓ more below (Ctrl+End) "


class ConversationView(ScrollView, can_focus=False):
    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    DEFAULT_CSS = CONVERSATION_CSS

    def __init__(
        self, read_full_output: FullOutputReader | None = None, *, id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._session: Session | None = None
        self._timeline = Timeline(read_full_output)
        self._block_heights = BlockHeights()
        self._draw_context: DrawContext | None = None
        self._palette: Palette | None = None
        self._is_expanded = False
        self.is_following_end = True
        """The end is visible, and stays so."""
        self._is_setting_scroll = False
        self._size_at_last_scroll = Size(0, 0)
        """How large it was when it last stood somewhere."""
        self._cached_blocks: dict[Block, None] = {}
        """Blocks whose lines are kept, those seen last at the end."""
        self.has_undrawn_changes = False
        """A frame is scheduled."""
        self._last_frame_time = 0.0

    # Called by the app

    def load_session(self, session: Session) -> None:
        """Load an opened task's past at once, and scroll to its end."""
        self._session = session
        self._timeline.load_session(session)
        self._reset_view()
        if len(self._timeline.blocks) > GC_FREEZE_MIN_BLOCKS:
            self.call_after_refresh(freeze_garbage_collector)

    def handle_task_event(self, session: Session, event: Event) -> None:
        if isinstance(event, TaskRewound):
            if self._session is not None and session.id == self._session.id:
                self.reload()
            return
        self._timeline.handle(session, event)
        self._request_frame()

    def show_note(self, text: str) -> None:
        """Show a message of joey."""
        self.add_or_refresh_block(build_note_block(text))

    def show_error(self, text: str) -> None:
        self.add_or_refresh_block(build_error_block(text))

    def show_rich_text(self, renderable: Text | Sequence[Piece]) -> None:
        """Show styled text drawn by the app."""
        text = renderable if isinstance(renderable, Text) else Text.assemble(*renderable)
        self.add_or_refresh_block(build_rich_text_block(text))

    def clear(self) -> None:
        self._timeline.clear()
        self._reset_view()

    def reload(self) -> None:
        """Reload after a rewind, because the rows have changed."""
        if self._session is not None:
            self.load_session(self._session)

    def render_latest_lines(self, max_lines: int) -> list[Strip]:
        """Render the end of the conversation for the terminal after the app has closed."""
        context = self._draw_context
        if context is None:
            return []
        lines: list[Strip] = []
        for block in reversed(self._timeline.blocks):
            height = block.measure_height(context)
            lines += (block.render_strip(y, context) for y in reversed(range(height)))
            if len(lines) >= max_lines:
                break
        latest = lines[:max_lines][::-1]
        return [line.crop(0, cell_len(line.text.rstrip())) for line in latest]

    def toggle_details(self) -> None:
        """Show or fold thinking, long outputs and long changes."""
        self._is_expanded = not self._is_expanded
        self._relayout_all()

    # Scrolling

    def scroll_pages(self, pages: int) -> None:
        self._scroll_lines(pages * max(1, self.size.height - 2))

    def action_scroll_home(self) -> None:
        self._scroll_lines(-self._block_heights.total)

    def scroll_end(self, **how: Any) -> None:
        """Scroll to the end, whose position is known only after measuring; until then, remember
        it."""
        self._set_following_end(True)
        self._measure_and_scroll()
        self.refresh()

    def _set_following_end(self, follows: bool) -> None:
        """Show a scrollbar while the user scrolls back; otherwise it only costs time to draw."""
        if follows != self.is_following_end:
            self.is_following_end = follows
            self.styles.scrollbar_size_vertical = 0 if follows else 1

    def _scroll_lines(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        # A resize moves it too, without scrolling back.
        is_resized = self.size != self._size_at_last_scroll
        moved = round(old_value) != round(new_value)
        if moved and not self._is_setting_scroll and not is_resized:
            self._measure_and_scroll(self._find_anchor(round(new_value)))
            self._set_following_end(self.scroll_offset.y >= self.max_scroll_y)
        super().watch_scroll_y(old_value, self.scroll_y)

    def _find_anchor(self, y: int) -> tuple[int, int]:
        """Find the anchor that stays in place when heights change: a visible block with a known
        height, and how far below its top the screen begins."""
        first, inner = self._block_heights.find_block(y)
        index, top = first, y - inner
        while index < len(self._block_heights) and top < y + self.size.height:
            if self._draw_context is not None and self._timeline.blocks[index].is_measured(
                self._draw_context
            ):
                return index, y - top
            top += self._block_heights[index]
            index += 1
        return first, inner

    def _measure_and_scroll(self, anchor: tuple[int, int] | None = None) -> None:
        """Measure visible blocks until nothing moves any more; without an anchor, at the end."""
        height, context = self.size.height, self._draw_context
        if context is None or height <= 0:
            return
        while True:
            last = max(0, self._block_heights.total - height)
            y = last if anchor is None else min(last, max(0, self._find_anchor_line(*anchor)))
            if not self._measure_blocks(context, y, y + height):
                break
        self._set_scroll_position(y)

    def _find_anchor_line(self, index: int, inner: int) -> int:
        if index >= len(self._block_heights):
            return self._block_heights.total
        last = max(0, self._block_heights[index] - 1)
        return self._block_heights.get_top_line(index) + min(inner, last)

    def _measure_blocks(self, context: DrawContext, start: int, end: int) -> bool:
        """Measure the blocks between these lines; return whether a height differs from its
        estimate."""
        index, inner = self._block_heights.find_block(start)
        top, moved = start - inner, False
        while index < len(self._block_heights) and top < end:
            height = self._timeline.blocks[index].measure_height(context)
            moved = moved or height != self._block_heights[index]
            self._block_heights.set_height(index, height)
            top += height
            index += 1
        return moved

    def _set_scroll_position(self, y: int) -> None:
        size = Size(self._content_columns, self._block_heights.total)
        if size != self.virtual_size:
            # As the reactive does it, but without a new layout of the screen for every line.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        self._size_at_last_scroll = self.size
        self._is_setting_scroll = True
        try:
            self.scroll_target_y = y
            self.scroll_y = y
        finally:
            self._is_setting_scroll = False

    # Frames

    def add_or_refresh_block(self, block: Block) -> None:
        """Add a block, or refresh one that has grown."""
        self._timeline.add_or_refresh_block(block)
        self._request_frame()

    def _request_frame(self) -> None:
        if self.has_undrawn_changes or self._draw_context is None:
            return
        self.has_undrawn_changes = True
        rest = self._last_frame_time + FRAME_INTERVAL_S - time.monotonic()
        if rest > 0:
            self.set_timer(rest, self._draw_frame)
        else:
            self.call_later(self._draw_frame)

    def _draw_frame(self) -> None:
        self.has_undrawn_changes = False
        self._last_frame_time = time.monotonic()
        context = self._draw_context
        if context is None:
            return
        anchor = None if self.is_following_end else self._find_anchor(self.scroll_offset.y)
        blocks = self._timeline.blocks
        first, _ = self._block_heights.find_block(self.scroll_offset.y)
        for block in blocks[len(self._block_heights) :]:
            self._block_heights.append(block.estimate_height(context.width))
        indexes = sorted(self._timeline.pop_changed_indexes())
        for index in indexes:
            block = blocks[index]
            known = index >= first or block.is_measured(context)
            height = (
                block.measure_height(context) if known else block.estimate_height(context.width)
            )
            self._block_heights.set_height(index, height)
        self._measure_and_scroll(anchor)
        # All lines from the first on that looks different; what is below may have moved.
        starts = [
            self._block_heights.get_top_line(index) + blocks[index].pop_first_changed_line()
            for index in indexes
        ]
        start = max(0, min(starts, default=0) - self.scroll_offset.y)
        if starts and start < self.size.height:
            self.refresh(Region(0, start, self.size.width, self.size.height - start))

    def _reset_view(self) -> None:
        """Estimate new blocks and scroll to the end."""
        self._cached_blocks.clear()
        self._set_following_end(True)
        self._relayout_all()

    def _relayout_all(self) -> None:
        """Estimate all blocks again, and measure visible ones."""
        if not self.is_attached or self._content_columns <= 0:
            return
        anchor = (
            None if self.is_following_end else self._block_heights.find_block(self.scroll_offset.y)
        )
        self._palette = self._palette or build_palette(self)
        context = DrawContext(self._content_columns, self._palette, self._is_expanded)
        if context != self._draw_context:
            self._draw_context = context
        self._timeline.pop_changed_indexes()
        self._block_heights = BlockHeights(
            block.estimate_height(context.width) for block in self._timeline.blocks
        )
        self._measure_and_scroll(anchor)
        self.refresh()

    def on_resize(self) -> None:
        if self._draw_context is None or self._draw_context.width != self._content_columns:
            self._relayout_all()
        else:
            self._measure_and_scroll(
                None if self.is_following_end else self._find_anchor(self.scroll_offset.y)
            )

    # Lines

    @property
    def _content_columns(self) -> int:
        """The number of columns without the scrollbar."""
        return self.size.width - 1

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self._palette is not None and self.is_attached:
            self.call_later(self._update_palette)

    def _update_palette(self) -> None:
        palette = build_palette(self)
        if palette != self._palette:
            self._palette = palette
            self._relayout_all()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render lines like other widgets, but without borders, so that a line drawn before is the
        same strip."""
        filters, background = self.get_line_filters(), self.background_colors[1]
        strips: list[Strip] = []
        for strip in self._iter_screen_strips(crop.y, crop.height):
            shown = strip
            for line_filter in filters:
                shown = shown.apply_filter(line_filter, background)
            strips.append(shown.crop(*crop.column_span))
        return strips

    def render_line(self, y: int) -> Strip:
        return next(self._iter_screen_strips(y, 1))

    def _iter_screen_strips(self, y: int, count: int) -> Iterator[Strip]:
        """Iterate over the lines of the screen at its width."""
        size, first, context = self.size, self.scroll_offset.y + y, self._draw_context
        selection = self.text_selection
        ground = self.rich_style if context is None else context.palette.resolve_style("")
        for line, drawn in enumerate(self._iter_strips(first, first + count), first):
            strip = drawn
            if selection is not None:
                style = self.screen.get_component_rich_style("screen--selection")
                strip = highlight_strip(drawn, selection.get_span(line), style)
            strip = strip.crop_extend(0, size.width, ground).apply_offsets(0, line)
            is_last = line == self.scroll_offset.y + size.height - 1
            yield (
                self._add_more_below_hint(strip) if is_last and not self.is_following_end else strip
            )
        below = first + count - max(first, self._block_heights.total if context is not None else 0)
        yield from [Strip.blank(size.width, ground)] * below

    def _iter_strips(self, start: int, end: int) -> Iterator[Strip]:
        """Iterate over all lines in this range."""
        if self._draw_context is None:
            return
        index, inner = self._block_heights.find_block(start)
        while start < end and index < len(self._block_heights):
            block, height = self._timeline.blocks[index], self._block_heights[index]
            self._cache_block(block)
            while inner < height and start < end:
                yield block.render_strip(inner, self._draw_context)
                inner, start = inner + 1, start + 1
            index, inner = index + 1, 0

    def _cache_block(self, block: Block) -> None:
        """Cache the lines of a block until many others were seen."""
        self._cached_blocks.pop(block, None)
        self._cached_blocks[block] = None
        if len(self._cached_blocks) > MAX_CACHED_BLOCKS:
            oldest = next(iter(self._cached_blocks))
            del self._cached_blocks[oldest]
            oldest.discard_strips()

    def _add_more_below_hint(self, strip: Strip) -> Strip:
        style = self.get_component_rich_style("conversation--more")
        hint = Segment(MORE_BELOW_HINT[: self._content_columns], style)
        kept = strip.crop(0, self._content_columns - len(hint.text))
        rest = strip.crop(self._content_columns, self.size.width)
        return Strip([*kept, hint, *rest], self.size.width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text and its terminator."""
        first = selection.start.y if selection.start is not None else 0
        end = self._block_heights.total if selection.end is None else selection.end.y + 1
        return extract_selected_text(selection, first, self._iter_strips(first, end)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


LEFT_MARGIN_COLUMNS = 1


def highlight_strip(strip: Strip, span: tuple[int, int] | None, style: Style) -> Strip:
    """Return the strip with a range of characters in this style."""
    if span is None:
        return strip
    start, end = span
    text = strip.text
    left = cell_len(text[:start])
    right = strip.cell_length if end < 0 else cell_len(text[:end])
    if left >= right:
        return strip
    inner = strip.crop(left, right)
    marked = Strip(
        [segment._replace(style=(segment.style or Style.null()) + style) for segment in inner]
    )
    return Strip.join([strip.crop(0, left), marked, strip.crop(right, strip.cell_length)])


def extract_selected_text(selection: Selection, first: int, lines: Iterable[Strip]) -> str:
    """Extract the selection from lines, of which the first has this number."""
    texts: list[str] = []
    for number, line in enumerate(lines, first):
        if (span := selection.get_span(number)) is not None:
            start, end = span
            text = line.text
            texts.append(
                text[max(start, LEFT_MARGIN_COLUMNS) : len(text) if end < 0 else end].rstrip()
            )
    return "\n".join(texts)


GC_FREEZE_MIN_BLOCKS = 500
"""Of a past that is worth an effort."""


def freeze_garbage_collector() -> None:
    """Exclude permanent objects from garbage collection, whose pauses would be noticeable."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()

"""The conversation widget: all blocks of a task in one scrollable view.

Blocks are drawn line by line when they come into view. A block that was never visible has an
estimated height; when the estimate is corrected, the visible lines stay where they are. Many
events between two frames lead to one refresh, of the lines that changed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
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
from joey.tui.blocks.block import Block, BlockHeights, DrawContext
from joey.tui.blocks.styled_text import COMPONENT_CLASSES, CONVERSATION_CSS, Palette, palette_of
from joey.tui.blocks.text import drawn_elsewhere, error, note
from joey.tui.blocks.timeline import FullOutputReader, Timeline

if TYPE_CHECKING:
    from joey.client.session import Session


FRAME_INTERVAL_S = 1 / 20
"""Seconds between two frames while something grows."""
MAX_CACHED_BLOCKS = 300
"""Blocks whose lines are kept."""
MORE_BELOW_HINT = " ↓ more below (Ctrl+End) "


class ConversationView(ScrollView, can_focus=False):
    ALLOW_SELECT = True
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    DEFAULT_CSS = CONVERSATION_CSS

    def __init__(self, kept: FullOutputReader | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session: Session | None = None
        self._timeline = Timeline(kept)
        self._heights = BlockHeights()
        self._look: DrawContext | None = None
        self._palette: Palette | None = None
        self._whole = False
        self._follows = True
        """It stays at the end."""
        self._is_settling = False
        self._stood = Size(0, 0)
        """How large it was when it last stood somewhere."""
        self._drawn: dict[Block, None] = {}
        """Blocks whose lines are kept, those seen last at the end."""
        self._frame_is_due = False
        self._last_frame = 0.0

    # What the application calls

    def begin(self, session: Session) -> None:
        """A task is opened: its past, at once, and the end of it in sight."""
        self._session = session
        self._timeline.begin(session)
        self._start_over()
        if len(self._timeline.blocks) > GC_FREEZE_MIN_BLOCKS:
            self.call_after_refresh(let_rest)

    def handle_task_event(self, teller: Session, event: Event) -> None:
        if isinstance(event, TaskRewound):
            if self._session is not None and teller.id == self._session.id:
                self.rewound()
            return
        self._timeline.handle(teller, event)
        self._request_frame()

    def note(self, text: str) -> None:
        """Words of joey itself."""
        self.add(note(text))

    def error(self, text: str) -> None:
        self.add(error(text))

    def card(self, renderable: Text) -> None:
        """Something that the application has drawn."""
        self.add(drawn_elsewhere(renderable))

    def clear(self) -> None:
        self._timeline.clear()
        self._start_over()

    def rewound(self) -> None:
        """The task went back: its rows are others now."""
        if self._session is not None:
            self.begin(self._session)

    def toggle_details(self) -> None:
        """Thinking, long outputs and long changes whole, or folded again."""
        self._whole = not self._whole
        self._lay_out_anew()

    # Where it stands

    def action_page_up(self) -> None:
        self._move(-max(1, self.size.height - 2))

    def action_page_down(self) -> None:
        self._move(max(1, self.size.height - 2))

    def action_scroll_home(self) -> None:
        self._move(-self._heights.total)

    def action_scroll_end(self) -> None:
        self.scroll_end()

    def scroll_end(self, **how: Any) -> None:
        """Where the end is, is only known when it is measured: that it is wanted, is kept."""
        self._follow(True)
        self._settle()
        self.refresh()

    @property
    def follows(self) -> bool:
        """The end is in sight, and stays so."""
        return self._follows

    @property
    def has_news(self) -> bool:
        """Something was told that is not drawn yet."""
        return self._frame_is_due

    def _follow(self, follows: bool) -> None:
        """A scrollbar is of use to somebody who looks back; else it is only one more thing to
        draw for each line that comes."""
        if follows != self._follows:
            self._follows = follows
            self.styles.scrollbar_size_vertical = 0 if follows else 1

    def _move(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, force=True)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        moved = round(old_value) != round(new_value)
        if moved and not self._is_settling and not self._is_being_resized:
            self._settle(self._held(round(new_value)))
            self._follow(self.scroll_offset.y >= self.max_scroll_y)
        super().watch_scroll_y(old_value, self.scroll_y)

    @property
    def _is_being_resized(self) -> bool:
        """Where it stands is moved about by the new size, not by somebody who looks back."""
        return self.size != self._stood

    def _held(self, y: int) -> tuple[int, int]:
        """What is to stay where it is when heights change: a block in sight whose own height is
        known, and how far below its top the screen begins."""
        first, inner = self._heights.find(y)
        place, top = first, y - inner
        while place < len(self._heights) and top < y + self.size.height:
            if self._look is not None and self._timeline.blocks[place].is_measured(self._look):
                return place, y - top
            top += self._heights[place]
            place += 1
        return first, inner

    def _settle(self, held: tuple[int, int] | None = None) -> None:
        """Measure what is in sight until nothing moves any more; without a hold, at the end."""
        height = self.size.height
        if self._look is None or height <= 0:
            return
        while True:
            last = max(0, self._heights.total - height)
            y = last if held is None else min(last, max(0, self._line_of(*held)))
            if not self._measure(y, y + height):
                break
        self._stand_at(y)

    def _line_of(self, place: int, inner: int) -> int:
        if place >= len(self._heights):
            return self._heights.total
        return self._heights.top(place) + min(inner, max(0, self._heights[place] - 1))

    def _measure(self, start: int, end: int) -> bool:
        """Whether a block between these lines has another height than was thought."""
        assert self._look is not None
        place, inner = self._heights.find(start)
        top, moved = start - inner, False
        while place < len(self._heights) and top < end:
            block = self._timeline.blocks[place]
            height = block.height(self._look)
            moved = moved or height != self._heights[place]
            self._heights.put(place, height)
            top += height
            place += 1
        return moved

    def _stand_at(self, y: int) -> None:
        size = Size(self._room, self._heights.total)
        if size != self.virtual_size:
            # As the reactive does it, but without a new layout of the screen for every line.
            self.set_reactive(Widget.virtual_size, size)
            self.vertical_scrollbar.window_virtual_size = size.height
        self._stood = self.size
        self._is_settling = True
        try:
            self.scroll_target_y = y
            self.scroll_y = y
        finally:
            self._is_settling = False

    # Frames

    def add(self, block: Block) -> None:
        """Also once more: it has grown."""
        self._timeline.add(block)
        self._request_frame()

    def _request_frame(self) -> None:
        if self._frame_is_due or self._look is None:
            return
        self._frame_is_due = True
        rest = self._last_frame + FRAME_INTERVAL_S - time.monotonic()
        if rest > 0:
            self.set_timer(rest, self._draw_frame)
        else:
            self.call_later(self._draw_frame)

    def _draw_frame(self) -> None:
        self._frame_is_due = False
        self._last_frame = time.monotonic()
        look = self._look
        if look is None:
            return
        held = None if self._follows else self._held(self.scroll_offset.y)
        blocks, first = self._timeline.blocks, self._heights.find(self.scroll_offset.y)[0]
        for block in blocks[len(self._heights) :]:
            self._heights.append(block.estimate(look.width))
        places = sorted(self._timeline.take_changes())
        for place in places:
            block = blocks[place]
            known = place >= first or block.is_measured(look)
            height = block.height(look) if known else block.estimate(look.width)
            self._heights.put(place, height)
        self._settle(held)
        self._refresh_from(places)

    def _refresh_from(self, places: list[int]) -> None:
        """All lines from the first on that looks different; what is below may have moved."""
        starts = [self._heights.top(place) + self._timeline.blocks[place].fresh for place in places]
        start = max(0, min(starts, default=0) - self.scroll_offset.y)
        if starts and start < self.size.height:
            self.refresh(Region(0, start, self.size.width, self.size.height - start))

    def _start_over(self) -> None:
        """Other blocks: estimate them, and go to the end."""
        self._drawn.clear()
        self._follow(True)
        self._lay_out_anew()

    def _lay_out_anew(self) -> None:
        """Everything looks different: estimate all, and measure what is in sight."""
        if not self.is_attached or self._room <= 0:
            return
        held = None if self._follows else self._heights.find(self.scroll_offset.y)
        if self._look is None or self._look.width != self._room or self._is_other():
            palette = self._palette or palette_of(self)
            self._palette = palette
            self._look = DrawContext(self._room, palette, self._whole)
        self._timeline.take_changes()
        width = self._look.width
        self._heights = BlockHeights(block.estimate(width) for block in self._timeline.blocks)
        self._settle(held)
        self.refresh()

    def _is_other(self) -> bool:
        look = self._look
        return look is None or look.whole != self._whole or look.palette is not self._palette

    def on_resize(self) -> None:
        if self._look is None or self._look.width != self._room:
            self._lay_out_anew()
        else:
            self._settle(None if self._follows else self._held(self.scroll_offset.y))

    # Lines

    @property
    def _room(self) -> int:
        """Columns, without that of the scrollbar."""
        return self.size.width - 1

    def notify_style_update(self) -> None:
        super().notify_style_update()
        if self._palette is not None and self.is_attached:
            self.call_later(self._take_colours)

    def _take_colours(self) -> None:
        palette = palette_of(self)
        if palette != self._palette:
            self._palette = palette
            self._lay_out_anew()

    def render_lines(self, crop: Region) -> list[Strip]:
        """As all widgets do it, but for one without borders: a line that was drawn before is the
        same strip again, with all that was computed for it."""
        filters, background = self.get_line_filters(), self.background_colors[1]
        strips: list[Strip] = []
        for strip in self._finished(crop.y, crop.height):
            shown = strip
            for line_filter in filters:
                shown = shown.apply_filter(line_filter, background)
            strips.append(shown.crop(*crop.column_span))
        return strips

    def render_line(self, y: int) -> Strip:
        return next(self._finished(y, 1))

    def _finished(self, y: int, count: int) -> Iterator[Strip]:
        """Lines of the screen, as wide as it is."""
        size, first, look = self.size, self.scroll_offset.y + y, self._look
        selection = self.text_selection
        ground = self.rich_style if look is None else look.palette.style("")
        for line, drawn in enumerate(self._lines(first, first + count), first):
            strip = drawn
            if selection is not None:
                style = self.screen.get_component_rich_style("screen--selection")
                strip = highlighted(drawn, selection.get_span(line), style)
            strip = strip.crop_extend(0, size.width, ground).apply_offsets(0, line)
            is_last = line == self.scroll_offset.y + size.height - 1
            yield self._with_hint(strip) if is_last and not self._follows else strip
        below = first + count - max(first, self._heights.total if look is not None else 0)
        yield from [Strip.blank(size.width, ground)] * below

    def _lines(self, start: int, end: int) -> Iterator[Strip]:
        """All lines there are between these."""
        if self._look is None:
            return
        place, inner = self._heights.find(start)
        while start < end and place < len(self._heights):
            block, height = self._timeline.blocks[place], self._heights[place]
            self._remember(block)
            while inner < height and start < end:
                yield block.strip(inner, self._look)
                inner, start = inner + 1, start + 1
            place, inner = place + 1, 0

    def _remember(self, block: Block) -> None:
        """The lines of a block are kept until many others were seen."""
        self._drawn.pop(block, None)
        self._drawn[block] = None
        if len(self._drawn) > MAX_CACHED_BLOCKS:
            oldest = next(iter(self._drawn))
            del self._drawn[oldest]
            oldest.forget_strips()

    def _with_hint(self, strip: Strip) -> Strip:
        style = self.get_component_rich_style("conversation--more")
        hint = Segment(MORE_BELOW_HINT[: self._room], style)
        kept = strip.crop(0, self._room - len(hint.text))
        rest = strip.crop(self._room, self.size.width)
        return Strip([*kept, hint, *rest], self.size.width)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text that is selected, and what ends it."""
        first = selection.start.y if selection.start is not None else 0
        end = self._heights.total if selection.end is None else selection.end.y + 1
        return selected_text(selection, first, self._lines(first, end)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()


LEFT_MARGIN_COLUMNS = 1
"""The column left of the text, which is nobody's."""


def highlighted(strip: Strip, span: tuple[int, int] | None, style: Style) -> Strip:
    """The strip with its characters from the first to before the second in this style."""
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


def selected_text(selection: Selection, first: int, lines: Iterable[Strip]) -> str:
    """What a selection holds of lines, of which the first has this number."""
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
"""Blocks of a past that is worth an effort."""


def let_rest() -> None:
    """What is there now is going to stay: the collector need not look at all of it every other
    second, which would be felt at the keyboard."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()

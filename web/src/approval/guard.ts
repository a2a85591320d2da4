// A guard against accidental answers: a press counts only if it began when the question had been
// visible for a while, and a click only if the buttons have neither moved nor been covered since.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { getPressStart } from "./presstimes";

/** How long a button must have been visible, in one place, before a press counts. */
const GUARD_DELAY_MS = 500;
const POLL_INTERVAL_MS = 100;

export interface PressGuard {
  /** It was visible for long enough; only for display, since a press may be older. */
  isOpen: boolean;
  /** The buttons have stayed in their places; only for display too. */
  isSettled: boolean;
  accepts(event: MouseEvent | KeyboardEvent): boolean;
}

/** Guard the question or task with this key; null while there is nothing to press. */
export function usePressGuard(key: string | null, findButtons?: () => Iterable<Element>): PressGuard {
  const opensAt = useRef(Infinity);
  const settlesAt = useRef(-Infinity);
  const lastPlaces = useRef("");
  const [openKey, setOpenKey] = useState<string | null>(null);
  const [isSettled, setIsSettled] = useState(true);

  const restart = () => {
    settlesAt.current = performance.now() + GUARD_DELAY_MS;
    setIsSettled(false);
  };
  const checkPlaces = () => {
    const places = describePlaces(findButtons?.() ?? []);
    if (places !== lastPlaces.current || places === COVERED) restart();
    else if (performance.now() >= settlesAt.current) setIsSettled(true);
    lastPlaces.current = places;
  };

  useLayoutEffect(() => {
    if (key === null) return;
    let timer = 0;
    // The first frame draws it, so by the second one it is in sight.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => {
        opensAt.current = performance.now() + GUARD_DELAY_MS;
        lastPlaces.current = describePlaces(findButtons?.() ?? []);
        timer = window.setTimeout(() => setOpenKey(key), GUARD_DELAY_MS);
      });
    });
    const interval = window.setInterval(checkPlaces, POLL_INTERVAL_MS);
    // The click that brings a window to the front is not meant for what is below it.
    window.addEventListener("focus", restart);
    window.addEventListener("resize", checkPlaces);
    document.addEventListener("visibilitychange", restart);
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      clearInterval(interval);
      window.removeEventListener("focus", restart);
      window.removeEventListener("resize", checkPlaces);
      document.removeEventListener("visibilitychange", restart);
      opensAt.current = Infinity;
      settlesAt.current = -Infinity;
      setOpenKey(null);
      setIsSettled(true);
    };
  }, [key]);

  return {
    isOpen: key !== null && openKey === key,
    isSettled,
    accepts: (event) => {
      const pressStart = getPressStart(event);
      if (pressStart === null || pressStart < opensAt.current) return false;
      if (event instanceof KeyboardEvent || event.detail === 0) return true;
      checkPlaces();
      return pressStart >= settlesAt.current;
    },
  };
}

const COVERED = "covered";

/** Where the buttons are, as a text to compare; whether something is on top of one of them. */
function describePlaces(buttons: Iterable<Element>): string {
  // Zooming with two fingers, and a keyboard on the screen that goes away, move the whole page.
  const { offsetLeft, offsetTop, scale } = window.visualViewport ?? { offsetLeft: 0, offsetTop: 0, scale: 1 };
  const places = [[offsetLeft, offsetTop, 100 * scale].map(Math.round).join(" ")];
  for (const button of buttons) {
    const { x, y, width, height } = button.getBoundingClientRect();
    const list = button.closest(".others");
    if (!isScrolledAway(list, y + height / 2)) {
      const top = document.elementFromPoint(x + width / 2, y + height / 2);
      if (top === null || !button.contains(top)) return COVERED;
    }
    // Who scrolls the list knows that its buttons move.
    places.push([x, y + (list?.scrollTop ?? 0), width, height].map(Math.round).join(" "));
  }
  return places.join(", ");
}

/** Whether this height is out of sight in a list that is scrolled; elsewhere it is no box of its own. */
function isScrolledAway(list: Element | null, y: number): boolean {
  if (list === null) return false;
  const { top, bottom, height } = list.getBoundingClientRect();
  return height > 0 && (y < top || y > bottom);
}

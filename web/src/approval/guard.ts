// A guard against accidental answers: a press counts only if it began when the question had been
// visible for a while.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { getPressStart } from "./presstimes";

/** How long a button must have been visible before a press counts. */
const GUARD_DELAY_MS = 500;

export interface PressGuard {
  /** It was visible for long enough; only for display, since a press may be older. */
  isOpen: boolean;
  accepts(event: MouseEvent | KeyboardEvent): boolean;
}

/** Guard the question or task with this key; null while there is nothing to press. */
export function usePressGuard(key: string | null): PressGuard {
  const opensAt = useRef(Infinity);
  const [openKey, setOpenKey] = useState<string | null>(null);

  useLayoutEffect(() => {
    if (key === null) return;
    let timer = 0;
    // The first frame draws it, so by the second one it is in sight.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => {
        opensAt.current = performance.now() + GUARD_DELAY_MS;
        timer = window.setTimeout(() => setOpenKey(key), GUARD_DELAY_MS);
      });
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      opensAt.current = Infinity;
      setOpenKey(null);
    };
  }, [key]);

  return {
    isOpen: key !== null && openKey === key,
    accepts: (event) => {
      const pressStart = getPressStart(event);
      return pressStart !== null && pressStart >= opensAt.current;
    },
  };
}

// A guard against accidental answers: a press counts only if it began when the question had been
// visible for a while.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { pressedAt } from "./presses";

/** Milliseconds for which something must have been in sight before it can be pressed. */
const GUARD = 500;

export interface Guard {
  /** It was in sight for long enough; only to be shown, since a press may be older. */
  open: boolean;
  accepts(event: MouseEvent | KeyboardEvent): boolean;
}

/** Guard what is known by this name; null while there is nothing to press. */
export function useGuard(name: string | null): Guard {
  const opensAt = useRef(Infinity);
  const [opened, setOpened] = useState<string | null>(null);

  useLayoutEffect(() => {
    if (name === null) return;
    let timer = 0;
    // The first frame draws it, so by the second one it is in sight.
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => {
        opensAt.current = performance.now() + GUARD;
        timer = window.setTimeout(() => setOpened(name), GUARD);
      });
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      opensAt.current = Infinity;
      setOpened(null);
    };
  }, [name]);

  return {
    open: name !== null && opened === name,
    accepts: (event) => {
      const at = pressedAt(event);
      return at !== null && at >= opensAt.current;
    },
  };
}

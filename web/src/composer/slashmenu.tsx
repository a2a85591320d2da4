// The menu of matching slash commands above the message field, and its keyboard handling.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { completed, fitting, wordAt } from "./slash";
import { attempt, link, loadSlashCommands, slashCommands } from "../state/store";
import type { SlashCommand } from "../wire/protocol";

interface MenuProps {
  options: SlashCommand[];
  place: number;
  pick(option: SlashCommand): void;
}

export const MENU = "slash-commands";

export function optionId(place: number): string {
  return `${MENU}-${place}`;
}

export function SlashMenu({ options, place, pick }: MenuProps) {
  const list = useRef<HTMLUListElement>(null);
  useLayoutEffect(() => {
    list.current?.children[place]?.scrollIntoView({ block: "nearest" });
  }, [place, options]);
  return (
    <>
      <ul class="slash-menu" id={MENU} role="listbox" aria-label="Slash commands" ref={list}>
        {options.map((option, index) => (
          <li
            key={option.name}
            id={optionId(index)}
            role="option"
            aria-selected={index === place}
            // The field keeps the focus.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => pick(option)}
          >
            <strong>/{option.name}</strong>
            {option.argumentHint && <span class="hint">{option.argumentHint}</span>}
            <span class="muted ellipsis">{option.description}</span>
            <span class="grow" />
            <span class="muted source">{option.source}</span>
          </li>
        ))}
      </ul>
      <span class="visually-hidden" role="status">
        {options.length === 1 ? "1 slash command" : `${options.length} slash commands`}
      </span>
    </>
  );
}

/** What is offered at the caret of a field, and what keys do meanwhile. */
export function useSlashMenu(
  field: RefObject<HTMLTextAreaElement | null>,
  text: string,
  change: (text: string) => void,
) {
  const [word, setWord] = useState<string | null>(null);
  const [place, setPlace] = useState(0);
  const caret = useRef<number | null>(null);
  const options = word === null || !text ? [] : fitting(slashCommands.value, word);

  useLayoutEffect(() => {
    if (caret.current !== null) field.current?.setSelectionRange(caret.current, caret.current);
    caret.current = null;
  }, [text]);

  // Somebody may write before there is a connection, and the menu comes with it.
  const canAsk = word !== null && link.value === "open";
  useEffect(() => {
    if (canAsk) void attempt(loadSlashCommands());
  }, [canAsk]);

  const close = () => setWord(null);
  const look = () => {
    const element = field.current;
    const found = element && wordAt(element.value, element.selectionStart);
    setWord(found);
    setPlace(0);
  };
  const pick = (option: SlashCommand) => {
    const element = field.current;
    if (element === null) return;
    const next = completed(element.value, element.selectionStart, option.name);
    caret.current = next.caret;
    close();
    change(next.text);
  };
  const pressed = (event: KeyboardEvent): boolean => {
    const option = options[Math.min(place, options.length - 1)];
    if (option === undefined || event.isComposing || event.altKey || event.shiftKey) return false;
    switch (event.key) {
      case "ArrowDown":
      case "ArrowUp":
        setPlace((place + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length);
        return true;
      case "Escape":
        close();
        return true;
      case "Enter":
        // What is written out needs no completion: it is sent.
        if (option.name === word) return false;
        pick(option);
        return true;
      case "Tab":
        pick(option);
        return true;
      default:
        return false;
    }
  };
  return { options, place: Math.min(place, Math.max(0, options.length - 1)), pick, look, close, pressed };
}

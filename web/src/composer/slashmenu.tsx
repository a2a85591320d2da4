// The menu of matching slash commands above the message field, and its keyboard handling.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { completeCommand, matchCommands, findCommandPrefix } from "./slash";
import { tryOrToast, connectionState, loadSlashCommands, slashCommands } from "../state/store";
import type { SlashCommand } from "../wire/protocol";

interface SlashMenuProps {
  options: SlashCommand[];
  selectedIndex: number;
  onPick(option: SlashCommand): void;
}

export const MENU_ID = "slash-commands";

export function getOptionId(index: number): string {
  return `${MENU_ID}-${index}`;
}

export function SlashMenu({ options, selectedIndex, onPick }: SlashMenuProps) {
  const listElement = useRef<HTMLUListElement>(null);
  useLayoutEffect(() => {
    listElement.current?.children[selectedIndex]?.scrollIntoView({ block: "nearest" });
  }, [selectedIndex, options]);
  return (
    <>
      <ul class="slash-menu" id={MENU_ID} role="listbox" aria-label="Slash commands" ref={listElement}>
        {options.map((option, index) => (
          <li
            key={option.name}
            id={getOptionId(index)}
            role="option"
            aria-selected={index === selectedIndex}
            // The field keeps the focus.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => onPick(option)}
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

/** The commands that match at the caret of a field, and the menu's keyboard handling. */
export function useSlashMenu(
  field: RefObject<HTMLTextAreaElement | null>,
  text: string,
  onChange: (text: string) => void,
) {
  const [prefix, setPrefix] = useState<string | null>(null);
  const [selectedIndex, setSelectedIndex] = useState(0);
  const pendingCaret = useRef<number | null>(null);
  const options = prefix === null || !text ? [] : matchCommands(slashCommands.value, prefix);

  useLayoutEffect(() => {
    if (pendingCaret.current !== null)
      field.current?.setSelectionRange(pendingCaret.current, pendingCaret.current);
    pendingCaret.current = null;
  }, [text]);

  // The user may write before there is a connection; the menu opens once there is one.
  const canLoad = prefix !== null && connectionState.value === "open";
  useEffect(() => {
    if (canLoad) void tryOrToast(loadSlashCommands());
  }, [canLoad]);

  const close = () => setPrefix(null);
  const update = () => {
    const element = field.current;
    const prefixAtCaret = element && findCommandPrefix(element.value, element.selectionStart);
    setPrefix(prefixAtCaret);
    setSelectedIndex(0);
  };
  const pick = (option: SlashCommand) => {
    const element = field.current;
    if (element === null) return;
    const completion = completeCommand(element.value, element.selectionStart, option.name);
    pendingCaret.current = completion.caret;
    close();
    onChange(completion.text);
  };
  const handleKey = (event: KeyboardEvent): boolean => {
    const option = options[Math.min(selectedIndex, options.length - 1)];
    if (option === undefined || event.isComposing || event.altKey || event.shiftKey) return false;
    switch (event.key) {
      case "ArrowDown":
      case "ArrowUp":
        setSelectedIndex(
          (selectedIndex + (event.key === "ArrowDown" ? 1 : options.length - 1)) % options.length,
        );
        return true;
      case "Escape":
        close();
        return true;
      case "Enter":
        // What is written out needs no completion: it is sent.
        if (option.name === prefix) return false;
        pick(option);
        return true;
      case "Tab":
        pick(option);
        return true;
      default:
        return false;
    }
  };
  return {
    options,
    selectedIndex: Math.min(selectedIndex, Math.max(0, options.length - 1)),
    pick,
    update,
    close,
    handleKey,
  };
}

// The message field with images and slash commands. Enter sends, Shift+Enter inserts a line break.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { Pictures, readPictures } from "../render/images";
import { MENU, optionId, SlashMenu, useSlashMenu } from "./slashmenu";
import { attempt } from "../state/store";

export interface Words {
  text: string;
  images: string[];
}

interface EditorProps {
  words: Words;
  change(words: Words): void;
  send(event: KeyboardEvent): void;
  label: string;
  hint: string;
  children: ComponentChildren;
}

const LETTERS = 400_000;

export function Editor({ words, change, send, label, hint, children }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [over, setOver] = useState(false);

  useLayoutEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [words.text]);

  const add = (files: Iterable<File>) => {
    const taken = words.images.reduce((sum, uri) => sum + uri.length, words.text.length);
    void attempt(
      readPictures(files, taken).then((more) => {
        if (more.length) change({ ...words, images: [...words.images, ...more] });
      }),
    );
  };

  const menu = useSlashMenu(field, words.text, (text) => change({ ...words, text }));

  const pressed = (event: KeyboardEvent) => {
    if (menu.pressed(event)) {
      event.preventDefault();
      return;
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.altKey) return;
    event.preventDefault();
    if (!event.repeat) send(event);
  };

  return (
    <div
      class={`editor ${over ? "over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        add(event.dataTransfer?.files ?? []);
      }}
    >
      <Pictures
        images={words.images}
        onRemove={(index) => change({ ...words, images: words.images.filter((_, place) => place !== index) })}
      />
      {menu.options.length > 0 && <SlashMenu options={menu.options} place={menu.place} pick={menu.pick} />}
      <textarea
        id="composer"
        ref={field}
        rows={1}
        maxLength={LETTERS}
        value={words.text}
        aria-label={label}
        placeholder={hint}
        aria-autocomplete="list"
        aria-controls={menu.options.length > 0 ? MENU : undefined}
        aria-activedescendant={menu.options.length > 0 ? optionId(menu.place) : undefined}
        onInput={(event) => {
          change({ ...words, text: event.currentTarget.value });
          menu.look();
        }}
        onKeyDown={pressed}
        onBlur={menu.close}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (files.length) {
            event.preventDefault();
            add(files);
          }
        }}
      />
      <div class="editor-foot">
        {children}
        <label class="attach quiet small">
          <input
            type="file"
            accept="image/*"
            multiple
            class="visually-hidden"
            onChange={(event) => {
              add(event.currentTarget.files ?? []);
              event.currentTarget.value = "";
            }}
          />
          <span aria-hidden="true">+</span> <span class="attach-word">Picture</span>
        </label>
      </div>
    </div>
  );
}

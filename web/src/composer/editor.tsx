// The message field with images and slash commands. Enter sends, Shift+Enter inserts a line break.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ImageThumbnails, readImages } from "../render/images";
import { MENU_ID, getOptionId, SlashMenu, useSlashMenu } from "./slashmenu";
import { tryOrToast } from "../state/store";

export interface MessageContent {
  text: string;
  images: string[];
}

interface MessageEditorProps {
  message: MessageContent;
  onChange(message: MessageContent): void;
  onSend(event: KeyboardEvent): void;
  label: string;
  placeholder: string;
  children: ComponentChildren;
}

const MAX_TEXT_CHARS = 400_000;

export function MessageEditor({
  message,
  onChange,
  onSend,
  label,
  placeholder,
  children,
}: MessageEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [isDragOver, setIsDragOver] = useState(false);

  useLayoutEffect(() => {
    const element = field.current;
    if (element === null) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [message.text]);

  const addImages = (files: Iterable<File>) => {
    const usedChars = message.images.reduce((sum, uri) => sum + uri.length, message.text.length);
    void tryOrToast(
      readImages(files, usedChars).then((added) => {
        if (added.length) onChange({ ...message, images: [...message.images, ...added] });
      }),
    );
  };

  const menu = useSlashMenu(field, message.text, (text) => onChange({ ...message, text }));

  const handleKeyDown = (event: KeyboardEvent) => {
    if (menu.handleKey(event)) {
      event.preventDefault();
      return;
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.altKey) return;
    event.preventDefault();
    if (!event.repeat) onSend(event);
  };

  return (
    <div
      class={`editor ${isDragOver ? "over" : ""}`}
      onDragOver={(event) => {
        event.preventDefault();
        setIsDragOver(true);
      }}
      onDragLeave={() => setIsDragOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsDragOver(false);
        addImages(event.dataTransfer?.files ?? []);
      }}
    >
      <ImageThumbnails
        images={message.images}
        onRemove={(index) =>
          onChange({ ...message, images: message.images.filter((_, imageIndex) => imageIndex !== index) })
        }
      />
      {menu.options.length > 0 && (
        <SlashMenu options={menu.options} selectedIndex={menu.selectedIndex} onPick={menu.pick} />
      )}
      <textarea
        id="composer"
        dir="auto"
        ref={field}
        rows={1}
        maxLength={MAX_TEXT_CHARS}
        value={message.text}
        aria-label={label}
        placeholder={placeholder}
        aria-autocomplete="list"
        aria-controls={menu.options.length > 0 ? MENU_ID : undefined}
        aria-activedescendant={menu.options.length > 0 ? getOptionId(menu.selectedIndex) : undefined}
        onInput={(event) => {
          onChange({ ...message, text: event.currentTarget.value });
          menu.update();
        }}
        onKeyDown={handleKeyDown}
        onBlur={menu.close}
        onPaste={(event) => {
          const files = [...(event.clipboardData?.files ?? [])];
          if (files.length) {
            event.preventDefault();
            addImages(files);
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
              // Clearing the field empties its own list too.
              addImages([...(event.currentTarget.files ?? [])]);
              event.currentTarget.value = "";
            }}
          />
          <span aria-hidden="true">+</span> <span class="attach-word">Picture</span>
        </label>
      </div>
    </div>
  );
}

// The start view: a form for a new task.

import { useState } from "preact/hooks";
import { draftOf, keepDraft } from "../composer/drafts";
import { Editor, type Words } from "../composer/editor";
import { ModeSelect, ProfileSelect } from "../composer/pickers";
import { attempt, command, firstMode, link, list, openTask, welcome } from "../state/store";

const DRAFT = "new";

export function NewTask({ menu }: { menu: preact.ComponentChildren }) {
  const [words, setWords] = useState<Words>({ text: draftOf(DRAFT), images: [] });
  const [workspace, setWorkspace] = useState("");
  const [mode, setMode] = useState("");
  const [busy, setBusy] = useState(false);
  const here = welcome.value?.workspace ?? "";
  const folders = [...new Set([here, ...list.groups.value.map((group) => group.workspace)])].filter(Boolean);

  const change = (next: Words) => {
    setWords(next);
    keepDraft(DRAFT, next.text);
  };

  const start = async () => {
    const text = words.text.trim();
    if (busy || (!text && !words.images.length)) return;
    setBusy(true);
    const options = {
      text,
      images: words.images,
      workspace: workspace || undefined,
      mode: mode || undefined,
    };
    await attempt(
      command("startNewTask", options).then(({ taskId }) => {
        change({ text: "", images: [] });
        openTask(taskId);
      }),
    );
    setBusy(false);
  };

  return (
    <div class="new-task">
      <div class="header-line">{menu}</div>
      <div class="new-task-middle">
        <h1>What shall be done?</h1>
        <Editor
          words={words}
          change={change}
          send={() => void start()}
          label="The new task"
          hint="Describe a task for joey"
        >
          <ModeSelect value={mode || firstMode.value} change={setMode} />
          <ProfileSelect />
          <span class="grow" />
          <button
            class="send"
            disabled={busy || link.value !== "open" || (!words.text.trim() && !words.images.length)}
            onClick={() => void start()}
          >
            Start
          </button>
        </Editor>
        <label class="field">
          <span>Folder to work in</span>
          <input
            list="folders"
            value={workspace}
            placeholder={here}
            spellcheck={false}
            onInput={(event) => setWorkspace(event.currentTarget.value)}
          />
        </label>
        <datalist id="folders">
          {folders.map((folder) => (
            <option key={folder} value={folder} />
          ))}
        </datalist>
      </div>
    </div>
  );
}

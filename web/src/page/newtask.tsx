// The start view: a form for a new task.

import { useState } from "preact/hooks";
import { loadDraft, storeDraft } from "../composer/drafts";
import { MessageEditor, type MessageContent } from "../composer/editor";
import { ModeSelect, ProfileSelect } from "../composer/pickers";
import {
  tryOrToast,
  sendCommand,
  defaultMode,
  connectionState,
  taskList,
  openTask,
  welcome,
} from "../state/store";

const DRAFT_KEY = "new";

export function NewTask({ menuButton }: { menuButton: preact.ComponentChildren }) {
  const [message, setMessage] = useState<MessageContent>({ text: loadDraft(DRAFT_KEY), images: [] });
  const [workspace, setWorkspace] = useState("");
  const [mode, setMode] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const defaultWorkspace = welcome.value?.workspace ?? "";
  const workspaces = [
    ...new Set([defaultWorkspace, ...taskList.groups.value.map((group) => group.workspace)]),
  ].filter(Boolean);

  const updateMessage = (next: MessageContent) => {
    setMessage(next);
    storeDraft(DRAFT_KEY, next.text);
  };

  const startTask = async () => {
    const text = message.text.trim();
    if (isBusy || (!text && !message.images.length)) return;
    setIsBusy(true);
    const options = {
      text,
      images: message.images,
      workspace: workspace || undefined,
      mode: mode || undefined,
    };
    await tryOrToast(
      sendCommand("startNewTask", options).then(({ taskId }) => {
        updateMessage({ text: "", images: [] });
        openTask(taskId);
      }),
    );
    setIsBusy(false);
  };

  return (
    <div class="new-task">
      <div class="header-line">{menuButton}</div>
      <div class="new-task-middle">
        <h1>What should I do?</h1>
        <MessageEditor
          message={message}
          onChange={updateMessage}
          onSend={() => void startTask()}
          label="The new task"
          placeholder="Describe a task for joey"
        >
          <ModeSelect value={mode || defaultMode.value} onChange={setMode} />
          <ProfileSelect />
          <span class="grow" />
          <button
            class="send"
            disabled={
              isBusy || connectionState.value !== "open" || (!message.text.trim() && !message.images.length)
            }
            onClick={() => void startTask()}
          >
            Start
          </button>
        </MessageEditor>
        <label class="field">
          <span>Directory to work in</span>
          <input
            list="folders"
            value={workspace}
            placeholder={defaultWorkspace}
            spellcheck={false}
            onInput={(event) => setWorkspace(event.currentTarget.value)}
          />
        </label>
        <datalist id="folders">
          {workspaces.map((path) => (
            <option key={path} value={path} />
          ))}
        </datalist>
      </div>
    </div>
  );
}

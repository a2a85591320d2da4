// The settings form: auto-approval, limits, custom instructions and profiles.

import { useEffect, useState } from "preact/hooks";
import { Profiles } from "./profiles";
import { attempt, command, link } from "../state/store";
import type { Settings } from "../wire/protocol";

interface Switch {
  key: string;
  label: string;
  on: boolean;
  risky?: boolean;
}

const SWITCHES: Switch[] = [
  { key: "alwaysAllowReadOnly", label: "Read files in the workspace", on: true },
  { key: "alwaysAllowReadOnlyOutsideWorkspace", label: "Read files elsewhere", on: false, risky: true },
  { key: "alwaysAllowWrite", label: "Change files in the workspace", on: false },
  { key: "alwaysAllowWriteOutsideWorkspace", label: "Change files elsewhere", on: false, risky: true },
  { key: "alwaysAllowWriteProtected", label: "Change protected files", on: false, risky: true },
  { key: "alwaysAllowExecute", label: "Run the commands allowed below", on: false },
  { key: "alwaysAllowModeSwitch", label: "Switch modes", on: false },
  { key: "alwaysAllowFollowupQuestions", label: "Take the first suggestion when nobody answers", on: false },
];

const LISTS: [key: string, label: string][] = [
  ["allowedCommands", "Commands that may run (one beginning per line)"],
  ["deniedCommands", "Commands that never run by themselves (one beginning per line)"],
];

const LIMITS: [key: string, label: string][] = [
  ["allowedMaxRequests", "Requests before joey asks"],
  ["allowedMaxCost", "US dollars before joey asks"],
];

export function SettingsForm() {
  const [settings, setSettings] = useState<Settings | null>(null);
  const connected = link.value === "open";
  useEffect(() => {
    if (!connected) return;
    void attempt(command("getConfiguration").then(({ configuration }) => setSettings(configuration)));
  }, [connected]);
  if (settings === null) return <p class="muted">Loading…</p>;
  const set = (key: string, value: unknown) => {
    const before = settings;
    setSettings({ ...settings, [key]: value });
    void attempt(command("setConfiguration", { values: { [key]: value } })).then((done) => {
      if (!done) setSettings(before);
    });
  };
  const enabled = settings["autoApprovalEnabled"] !== false;
  return (
    <div class="settings">
      <section>
        <h3>Without asking, joey may</h3>
        <Toggle
          label="Do anything below without asking"
          on={enabled}
          set={(on) => set("autoApprovalEnabled", on)}
        />
        <div class="switches" aria-disabled={!enabled}>
          {SWITCHES.map(({ key, label, on, risky }) => (
            <Toggle
              key={key}
              label={label}
              risky={risky}
              disabled={!enabled}
              on={(settings[key] ?? on) === true}
              set={(now) => set(key, now)}
            />
          ))}
        </div>
        {LISTS.map(([key, label]) => (
          <label class="field" key={key}>
            <span>{label}</span>
            <textarea
              rows={3}
              spellcheck={false}
              value={((settings[key] as string[] | undefined) ?? []).join("\n")}
              onChange={(event) =>
                set(
                  key,
                  event.currentTarget.value
                    .split("\n")
                    .map((line) => line.trim())
                    .filter(Boolean),
                )
              }
            />
          </label>
        ))}
        <div class="pair">
          {LIMITS.map(([key, label]) => (
            <label class="field" key={key}>
              <span>{label}</span>
              <input
                type="number"
                min={0}
                step="any"
                placeholder="no limit"
                value={String(settings[key] ?? "")}
                onChange={(event) =>
                  set(key, event.currentTarget.value === "" ? null : Number(event.currentTarget.value))
                }
              />
            </label>
          ))}
        </div>
      </section>
      <section>
        <h3>Instructions for every task</h3>
        <label class="field">
          <span class="visually-hidden">Instructions for every task</span>
          <textarea
            rows={3}
            value={String(settings["customInstructions"] ?? "")}
            onChange={(event) => set("customInstructions", event.currentTarget.value)}
          />
        </label>
      </section>
      <Profiles />
      <p class="muted small-print">Changes count for tasks that start or resume from now on.</p>
    </div>
  );
}

interface ToggleProps {
  label: string;
  on: boolean;
  risky?: boolean;
  disabled?: boolean;
  set(on: boolean): void;
}

function Toggle({ label, on, risky, disabled, set }: ToggleProps) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        role="switch"
        checked={on}
        disabled={disabled}
        onChange={(event) => set(event.currentTarget.checked)}
      />
      <span>{label}</span>
      {risky && <span class="risky">risky</span>}
    </label>
  );
}

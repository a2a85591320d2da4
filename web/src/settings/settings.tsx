// The settings form: auto-approval, limits, custom instructions and profiles.

import { useEffect, useState } from "preact/hooks";
import { GrantedRuleList } from "./permissions";
import { ProfileList } from "./profiles";
import { tryOrToast, sendCommand, connectionState, permissionsRevision } from "../state/store";
import type { Settings } from "../wire/protocol";

interface ApprovalSwitch {
  key: string;
  label: string;
  defaultOn: boolean;
  isRisky?: boolean;
}

const APPROVAL_SWITCHES: ApprovalSwitch[] = [
  { key: "alwaysAllowReadOnly", label: "Read files in the workspace", defaultOn: true },
  {
    key: "alwaysAllowReadOnlyOutsideWorkspace",
    label: "Read files elsewhere",
    defaultOn: false,
    isRisky: true,
  },
  { key: "alwaysAllowWrite", label: "Change files in the workspace", defaultOn: false },
  {
    key: "alwaysAllowWriteOutsideWorkspace",
    label: "Change files elsewhere",
    defaultOn: false,
    isRisky: true,
  },
  { key: "alwaysAllowWriteProtected", label: "Change protected files", defaultOn: false, isRisky: true },
  { key: "alwaysAllowExecute", label: "Run the commands allowed below", defaultOn: false },
  { key: "alwaysAllowModeSwitch", label: "Switch modes", defaultOn: false },
  {
    key: "alwaysAllowFollowupQuestions",
    label: "Choose the first suggestion if you do not answer",
    defaultOn: false,
  },
];

const COMMAND_LIST_FIELDS: [key: string, label: string][] = [
  ["allowedCommands", "Commands that may run (one beginning per line)"],
  ["deniedCommands", "Commands that never run (one beginning per line)"],
];

const LIMIT_FIELDS: [key: string, label: string][] = [
  ["allowedMaxRequests", "Requests before joey asks"],
  ["allowedMaxCost", "US dollars before joey asks"],
];

export function SettingsForm() {
  const [settings, setSettings] = useState<Settings | null>(null);
  const isConnected = connectionState.value === "open";
  const revision = permissionsRevision.value;
  useEffect(() => {
    if (!isConnected) return;
    void tryOrToast(sendCommand("getConfiguration").then(({ configuration }) => setSettings(configuration)));
  }, [isConnected, revision]);
  if (settings === null) return <p class="muted">Loading…</p>;
  const saveSetting = (key: string, value: unknown) => {
    const previous = settings;
    setSettings({ ...settings, [key]: value });
    void tryOrToast(sendCommand("setConfiguration", { values: { [key]: value } })).then((succeeded) => {
      if (!succeeded) setSettings(previous);
    });
  };
  const isAutoApprovalOn = settings["autoApprovalEnabled"] !== false;
  return (
    <div class="settings">
      <section>
        <h3>Without asking, joey may</h3>
        <Toggle
          label="Apply these rules (off: ask about everything)"
          isOn={isAutoApprovalOn}
          onChange={(isOn) => saveSetting("autoApprovalEnabled", isOn)}
        />
        <div class="switches" aria-disabled={!isAutoApprovalOn}>
          {APPROVAL_SWITCHES.map(({ key, label, defaultOn, isRisky }) => (
            <Toggle
              key={key}
              label={label}
              isRisky={isRisky}
              isDisabled={!isAutoApprovalOn}
              isOn={(settings[key] ?? defaultOn) === true}
              onChange={(isOn) => saveSetting(key, isOn)}
            />
          ))}
        </div>
        {COMMAND_LIST_FIELDS.map(([key, label]) => (
          <label class="field" key={key}>
            <span>{label}</span>
            <textarea
              rows={3}
              spellcheck={false}
              value={((settings[key] as string[] | undefined) ?? []).join("\n")}
              onChange={(event) =>
                saveSetting(
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
          {LIMIT_FIELDS.map(([key, label]) => (
            <label class="field" key={key}>
              <span>{label}</span>
              <input
                type="number"
                min={0}
                step="any"
                placeholder="no limit"
                value={String(settings[key] ?? "")}
                onChange={(event) =>
                  saveSetting(
                    key,
                    event.currentTarget.value === "" ? null : Number(event.currentTarget.value),
                  )
                }
              />
            </label>
          ))}
        </div>
      </section>
      <GrantedRuleList />
      <section>
        <h3>Instructions for every task</h3>
        <label class="field">
          <span class="visually-hidden">Instructions for every task</span>
          <textarea
            rows={3}
            value={String(settings["customInstructions"] ?? "")}
            onChange={(event) => saveSetting("customInstructions", event.currentTarget.value)}
          />
        </label>
      </section>
      <ProfileList />
      <p class="muted small-print">
        Revoked rules are asked about at once; other changes count for tasks that start or resume from now on.
      </p>
    </div>
  );
}

interface ToggleProps {
  label: string;
  isOn: boolean;
  isRisky?: boolean;
  isDisabled?: boolean;
  onChange(isOn: boolean): void;
}

function Toggle({ label, isOn, isRisky, isDisabled, onChange }: ToggleProps) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        role="switch"
        checked={isOn}
        disabled={isDisabled}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{label}</span>
      {isRisky && <span class="risky">risky</span>}
    </label>
  );
}

// The drop-down lists for the mode and the profile.

import { activeProfile, attempt, command, modes, profiles } from "../state/store";

interface ModeProps {
  value: string;
  disabled?: boolean;
  change(mode: string): void;
}

export function ModeSelect({ value, disabled, change }: ModeProps) {
  const known = modes.value.some((mode) => mode.slug === value);
  return (
    <label class="select">
      <span class="visually-hidden">Mode</span>
      <select
        value={value}
        title="Mode"
        disabled={disabled}
        onChange={(event) => change(event.currentTarget.value)}
      >
        {!known && <option value={value}>{value || "mode"}</option>}
        {modes.value.map((mode) => (
          <option key={mode.slug} value={mode.slug} title={mode.description}>
            {mode.name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The profile that new tasks, and those that are resumed, talk to. */
export function ProfileSelect() {
  if (profiles.value.length === 0) return null;
  const change = (name: string) =>
    void attempt(
      command("setActiveProfile", { name }).then((answer) => {
        activeProfile.value = answer.activeProfile;
      }),
    );
  return (
    <label class="select">
      <span class="visually-hidden">Profile</span>
      <select
        value={activeProfile.value ?? ""}
        title="Profile"
        onChange={(event) => change(event.currentTarget.value)}
      >
        {activeProfile.value === null && <option value="">default</option>}
        {profiles.value.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

// The drop-down lists for the mode and the profile.

import { activeProfile, tryOrToast, sendCommand, modes, profileNames } from "../state/store";

interface ModeSelectProps {
  value: string;
  disabled?: boolean;
  onChange(mode: string): void;
}

export function ModeSelect({ value, disabled, onChange }: ModeSelectProps) {
  const isKnown = modes.value.some((mode) => mode.slug === value);
  return (
    <label class="select">
      <span class="visually-hidden">Mode</span>
      <select
        value={value}
        title="Mode"
        disabled={disabled}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {!isKnown && <option value={value}>{value || "mode"}</option>}
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
  if (profileNames.value.length === 0) return null;
  const activateProfile = (name: string) =>
    void tryOrToast(
      sendCommand("setActiveProfile", { name }).then((answer) => {
        activeProfile.value = answer.activeProfile;
      }),
    );
  return (
    <label class="select">
      <span class="visually-hidden">Profile</span>
      <select
        value={activeProfile.value ?? ""}
        title="Profile"
        onChange={(event) => activateProfile(event.currentTarget.value)}
      >
        {activeProfile.value === null && <option value="">default</option>}
        {profileNames.value.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

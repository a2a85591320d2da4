// The list of provider profiles and the form for one. API keys are write-only: an empty field keeps the
// stored key.

import { useState } from "preact/hooks";
import { askToConfirm } from "../page/confirm";
import { activeProfile, tryOrToast, sendCommand, loadModesAndProfiles, profileNames } from "../state/store";
import type { Profile } from "../wire/protocol";

const PROFILE_FIELDS: [key: string, label: string][] = [
  ["model", "Model"],
  ["baseUrl", "Address (empty: the provider's own)"],
  ["contextWindow", "Context window in tokens"],
  ["maxTokens", "Maximum reply in tokens"],
];
const NUMERIC_FIELDS = new Set(["contextWindow", "maxTokens"]);
const PROVIDER_NAMES = [
  "anthropic",
  "openai",
  "openrouter",
  "ollama",
  "deepseek",
  "gemini",
  "groq",
  "mistral",
  "xai",
];

interface ProfileDraft {
  name: string;
  isExisting: boolean;
  profile: Profile;
}

export function ProfileList() {
  const [draft, setDraft] = useState<ProfileDraft | null>(null);
  const editProfile = (name: string) =>
    void tryOrToast(
      sendCommand("getProfileEntry", { name }).then(({ profile }) =>
        setDraft({ name, isExisting: true, profile }),
      ),
    );
  const applyChange = (work: Promise<unknown>) => void tryOrToast(work.then(loadModesAndProfiles));
  const deleteProfile = (name: string) =>
    askToConfirm({
      title: `Delete the profile ${name}?`,
      text: "Its API key is deleted too. This cannot be undone.",
      actionLabel: "Delete profile",
      run: () => applyChange(sendCommand("deleteProfile", { name })),
    });
  return (
    <section>
      <h3>Profiles</h3>
      <ul class="profiles">
        {profileNames.value.map((name) => (
          <li key={name}>
            <span class="ellipsis">{name}</span>
            {name === activeProfile.value && <span class="status completed">✓ active</span>}
            <span class="grow" />
            {name !== activeProfile.value && (
              <button class="small" onClick={() => applyChange(sendCommand("setActiveProfile", { name }))}>
                Use
              </button>
            )}
            <button class="small" onClick={() => editProfile(name)} aria-label={`Edit profile ${name}`}>
              Edit
            </button>
            <button
              class="small danger"
              onClick={() => deleteProfile(name)}
              aria-label={`Delete profile ${name}`}
            >
              Delete
            </button>
          </li>
        ))}
        {profileNames.value.length === 0 && (
          <li class="muted">None: joey uses the keys of its environment.</li>
        )}
      </ul>
      {draft === null ? (
        <button
          class="small"
          onClick={() => setDraft({ name: "", isExisting: false, profile: { provider: "anthropic" } })}
        >
          Add a profile
        </button>
      ) : (
        <ProfileForm draft={draft} onDone={() => setDraft(null)} />
      )}
    </section>
  );
}

function ProfileForm({ draft, onDone }: { draft: ProfileDraft; onDone(): void }) {
  const [name, setName] = useState(draft.name);
  const [values, setValues] = useState<Profile>(draft.profile);
  const setField = (key: string, value: string) =>
    setValues({ ...values, [key]: NUMERIC_FIELDS.has(key) && /^\d+$/.test(value) ? Number(value) : value });
  const saveProfile = async () => {
    const profile = Object.fromEntries(
      Object.entries(values).filter(([key, value]) => key !== "name" && value !== "" && value !== null),
    );
    const activate = profileNames.value.length === 0 || name === activeProfile.value;
    const saved = await tryOrToast(
      sendCommand("upsertProfile", { name: name.trim(), profile, activate }).then(loadModesAndProfiles),
    );
    if (saved) onDone();
  };
  return (
    <form
      class="profile-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim()) void saveProfile();
      }}
    >
      <label class="field">
        <span>Name</span>
        <input
          value={name}
          required
          disabled={draft.isExisting}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Provider</span>
        <input
          list="providers"
          autocomplete="off"
          value={String(values["provider"] ?? "")}
          onInput={(event) => setField("provider", event.currentTarget.value)}
        />
      </label>
      {PROFILE_FIELDS.map(([key, label]) => (
        <label class="field" key={key}>
          <span>{label}</span>
          <input
            autocomplete="off"
            inputMode={NUMERIC_FIELDS.has(key) ? "numeric" : "text"}
            value={String(values[key] ?? "")}
            onInput={(event) => setField(key, event.currentTarget.value)}
          />
        </label>
      ))}
      <label class="field">
        <span>Key (empty: keep the current one)</span>
        <input
          type="password"
          autocomplete="off"
          value={String(values["apiKey"] ?? "")}
          onInput={(event) => setField("apiKey", event.currentTarget.value)}
        />
      </label>
      <datalist id="providers">
        {PROVIDER_NAMES.map((provider) => (
          <option key={provider} value={provider} />
        ))}
      </datalist>
      <div class="buttons">
        <button class="primary small" type="submit">
          Save
        </button>
        <button class="small" type="button" onClick={onDone}>
          Cancel
        </button>
      </div>
    </form>
  );
}

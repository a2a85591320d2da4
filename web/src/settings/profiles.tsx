// The list of provider profiles and the form for one. API keys are write-only: an empty field keeps the
// stored key.

import { useState } from "preact/hooks";
import { activeProfile, attempt, command, loadChoices, profiles } from "../state/store";
import type { Profile } from "../wire/protocol";

const FIELDS: [key: string, label: string][] = [
  ["model", "Model"],
  ["baseUrl", "Address (empty: the provider's own)"],
  ["contextWindow", "Context window in tokens"],
  ["maxTokens", "Longest answer in tokens"],
];
const NUMBERS = new Set(["contextWindow", "maxTokens"]);
const PROVIDERS = [
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

interface Draft {
  name: string;
  known: boolean;
  profile: Profile;
}

export function Profiles() {
  const [draft, setDraft] = useState<Draft | null>(null);
  const edit = (name: string) =>
    void attempt(
      command("getProfileEntry", { name }).then(({ profile }) => setDraft({ name, known: true, profile })),
    );
  const change = (work: Promise<unknown>) => void attempt(work.then(loadChoices));
  return (
    <section>
      <h3>Profiles</h3>
      <ul class="profiles">
        {profiles.value.map((name) => (
          <li key={name}>
            <span class="ellipsis">{name}</span>
            {name === activeProfile.value && <span class="status completed">✓ active</span>}
            <span class="grow" />
            {name !== activeProfile.value && (
              <button class="small" onClick={() => change(command("setActiveProfile", { name }))}>
                Use
              </button>
            )}
            <button class="small" onClick={() => edit(name)} aria-label={`Edit profile ${name}`}>
              Edit
            </button>
            <button
              class="small danger"
              onClick={() => change(command("deleteProfile", { name }))}
              aria-label={`Delete profile ${name}`}
            >
              Delete
            </button>
          </li>
        ))}
        {profiles.value.length === 0 && <li class="muted">None: joey uses the keys of its environment.</li>}
      </ul>
      {draft === null ? (
        <button
          class="small"
          onClick={() => setDraft({ name: "", known: false, profile: { provider: "anthropic" } })}
        >
          Add a profile
        </button>
      ) : (
        <ProfileForm draft={draft} done={() => setDraft(null)} />
      )}
    </section>
  );
}

function ProfileForm({ draft, done }: { draft: Draft; done(): void }) {
  const [name, setName] = useState(draft.name);
  const [values, setValues] = useState<Profile>(draft.profile);
  const set = (key: string, value: string) =>
    setValues({ ...values, [key]: NUMBERS.has(key) && /^\d+$/.test(value) ? Number(value) : value });
  const save = async () => {
    const profile = Object.fromEntries(
      Object.entries(values).filter(([key, value]) => key !== "name" && value !== "" && value !== null),
    );
    const activate = profiles.value.length === 0 || name === activeProfile.value;
    const saved = await attempt(
      command("upsertProfile", { name: name.trim(), profile, activate }).then(loadChoices),
    );
    if (saved) done();
  };
  return (
    <form
      class="profile-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (name.trim()) void save();
      }}
    >
      <label class="field">
        <span>Name</span>
        <input
          value={name}
          required
          disabled={draft.known}
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <label class="field">
        <span>Provider</span>
        <input
          list="providers"
          autocomplete="off"
          value={String(values["provider"] ?? "")}
          onInput={(event) => set("provider", event.currentTarget.value)}
        />
      </label>
      {FIELDS.map(([key, label]) => (
        <label class="field" key={key}>
          <span>{label}</span>
          <input
            autocomplete="off"
            inputMode={NUMBERS.has(key) ? "numeric" : "text"}
            value={String(values[key] ?? "")}
            onInput={(event) => set(key, event.currentTarget.value)}
          />
        </label>
      ))}
      <label class="field">
        <span>Key (empty: leave as it is)</span>
        <input
          type="password"
          autocomplete="off"
          value={String(values["apiKey"] ?? "")}
          onInput={(event) => set("apiKey", event.currentTarget.value)}
        />
      </label>
      <datalist id="providers">
        {PROVIDERS.map((provider) => (
          <option key={provider} value={provider} />
        ))}
      </datalist>
      <div class="buttons">
        <button class="primary small" type="submit">
          Save
        </button>
        <button class="small" type="button" onClick={done}>
          Cancel
        </button>
      </div>
    </form>
  );
}

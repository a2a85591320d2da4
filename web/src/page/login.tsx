// The form that asks for the server's token.

import { useState } from "preact/hooks";
import { connect } from "../state/store";

export function Login() {
  const [token, setToken] = useState("");
  return (
    <main class="login">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim()) connect(token.trim());
        }}
      >
        <h1>joey</h1>
        <p class="muted">
          Open the link that <code>joey serve</code> printed last (each works once), or paste the token from{" "}
          <code>server.token</code> in joey's folder.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button class="primary" type="submit">
          Connect
        </button>
      </form>
    </main>
  );
}

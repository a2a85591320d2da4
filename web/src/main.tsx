// The page's entry point: connects with the token, starts the listeners, renders the app.

import { render } from "preact";
import { App } from "./page/app";
import { startKeyListener } from "./page/keys";
import { trackPresses } from "./approval/presstimes";
import { connect, openTask } from "./state/store";
import { loadToken } from "./wire/token";

const token = loadToken();
if (token !== null) connect(token);
trackPresses();
startKeyListener();
window.addEventListener("hashchange", () => {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const newToken = fragment.has("token") ? loadToken() : null;
  if (newToken !== null) connect(newToken);
  else openTask(fragment.get("task"));
});
render(<App />, document.getElementById("app") as HTMLElement);

// The page's entry point: connects with the token, starts the listeners, renders the app.

import { render } from "preact";
import { App } from "./page/app";
import { listenToKeys } from "./page/keys";
import { listenToPresses } from "./approval/presses";
import { connect, openTask } from "./state/store";
import { takeToken } from "./wire/token";

const token = takeToken();
if (token !== null) connect(token);
listenToPresses();
listenToKeys();
window.addEventListener("hashchange", () => {
  const given = new URLSearchParams(location.hash.slice(1));
  const fresh = given.has("token") ? takeToken() : null;
  if (fresh !== null) connect(fresh);
  else openTask(given.get("task"));
});
render(<App />, document.getElementById("app") as HTMLElement);

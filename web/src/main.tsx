// The page's entry point: connects with the token, starts the listeners, renders the app.

import { render } from "preact";
import { App } from "./page/app";
import { startKeyListener } from "./page/keys";
import { trackPresses } from "./approval/presstimes";
import { connect, openTask } from "./state/store";
import { followLogOut, loadToken, readCredential } from "./wire/token";

const credential = readCredential() ?? loadToken();
if (credential !== null) connect(credential);
followLogOut();
trackPresses();
startKeyListener();
window.addEventListener("hashchange", () => {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const newCredential = readCredential();
  if (newCredential !== null) connect(newCredential);
  else openTask(fragment.get("task"));
});
render(<App />, document.getElementById("app") as HTMLElement);

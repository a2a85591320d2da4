// A client of the package `ws` whose words come from stdin and whose hearing goes to stdout, one
// JSON value per line. What it hears is read and written again by JavaScript, not just passed on.

import { createInterface } from "node:readline";
import WebSocket from "ws";

const [address, token] = process.argv.slice(2);
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const socket = new WebSocket(address, { headers: { Authorization: `Bearer ${token}` } });

socket.on("open", () => say({ open: true }));
socket.on("message", (data, isBinary) => say(isBinary ? { binary: true } : { frame: JSON.parse(data) }));
socket.on("close", (code) => {
  say({ close: code });
  process.exit(0);
});
socket.on("error", (error) => say({ error: error.message }));

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if ("text" in order) socket.send(order.text);
  else if ("base64" in order) socket.send(Buffer.from(order.base64, "base64"));
  else if (order.pause) socket.pause();
  else socket.resume();
}
socket.close();

// An editor made with the protocol's package for TypeScript: it drives one story with the program
// that the arguments name, and prints what it saw as one line of JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [cwd, ...command] = process.argv.slice(2);
const { agent: theirs, client: ours } = acp.methods;
const seen = { asked: [], updates: {}, stops: [] };
let answer = () => "allow";

function editor() {
  return acp
    .client({ name: "test" })
    .onRequest(ours.session.requestPermission, async ({ params }) => {
      seen.asked.push(params.toolCall.title);
      const optionId = await answer();
      return { outcome: optionId ? { outcome: "selected", optionId } : { outcome: "cancelled" } };
    })
    .onNotification(ours.session.update, ({ params }) => {
      (seen.updates[params.sessionId] ??= []).push(params.update);
    });
}

async function talk(story) {
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const over = new Promise((resolve) => child.on("exit", resolve));
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const connection = editor().connect(stream);
  await connection.agent.request(theirs.initialize, { protocolVersion: acp.PROTOCOL_VERSION });
  await story(connection.agent);
  child.stdin.end();
  seen.code = await over;
}

const prompt = async (agent, sessionId, text) => {
  const said = { sessionId, prompt: [{ type: "text", text }] };
  seen.stops.push((await agent.request(theirs.session.prompt, said)).stopReason);
};

let sessionId;
await talk(async (agent) => {
  const made = await agent.request(theirs.session.new, { cwd, mcpServers: [] });
  sessionId = seen.session = made.sessionId;
  seen.modes = made.modes.availableModes.map((mode) => mode.id);
  await prompt(agent, sessionId, "write it");
  await agent.request(theirs.session.setMode, { sessionId, modeId: "ask" });
  await prompt(agent, sessionId, "what now?");
  await agent.request(theirs.session.setMode, { sessionId, modeId: "code" });
  answer = async () => {
    await agent.notify(theirs.session.cancel, { sessionId });
    return null;
  };
  await prompt(agent, sessionId, "run it");
});
seen.live = seen.updates[sessionId];
seen.updates = {};
await talk(async (agent) => {
  const listed = await agent.request(theirs.session.list, { cwd });
  seen.listed = listed.sessions.map((session) => session.sessionId);
  const loaded = await agent.request(theirs.session.load, { sessionId, cwd, mcpServers: [] });
  seen.mode = loaded.modes.currentModeId;
});
seen.loaded = seen.updates[sessionId];
delete seen.updates;
console.log(JSON.stringify(seen));

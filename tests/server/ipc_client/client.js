// Drives joey through its IPC socket as a program of Roo's would: `node client.js PACKAGE SOCKET`.
// Every message of the server is checked with Roo's own schemas. At the end, what was heard is
// printed as JSON.

import { ipcMessageSchema } from "@roo-code/types";

const [, , packageName, socketPath] = process.argv;
const { default: ipc } = await import(packageName);
const SERVER = "joey";
const heard = [];
const waiting = [];
let clientId;

function hear(message) {
	const checked = ipcMessageSchema.safeParse(message);
	if (!checked.success) {
		fail(`not a message of Roo's: ${JSON.stringify(message)}\n${checked.error}`);
	}
	heard.push(checked.data);
	for (const wake of waiting.splice(0)) wake();
}

function fail(reason) {
	console.error(reason);
	process.exit(1);
}

function send(commandName, data) {
	const command = data === undefined ? { commandName } : { commandName, data };
	const message = { type: "TaskCommand", origin: "client", clientId, data: command };
	const checked = ipcMessageSchema.safeParse(message);
	if (!checked.success) {
		fail(`not a command of Roo's: ${checked.error}`);
	}
	ipc.of[SERVER].emit("message", message);
}

let read = 0;

/** The next message that fits; those before it are passed over. */
async function next(fits) {
	for (;;) {
		while (read < heard.length) {
			const message = heard[read++];
			if (fits(message)) return message.data;
		}
		await new Promise((resolve) => waiting.push(resolve));
	}
}

const event = (name) => next(({ data }) => data.eventName === name);
const asked = (ask) =>
	next(({ data }) => data.eventName === "message" && data.payload[0].message.ask === ask);
const said = (text) =>
	next(({ data }) => data.eventName === "message" && data.payload[0].message.text?.includes(text));

setTimeout(() => fail(`no end after 30 s; heard ${JSON.stringify(heard.slice(-5))}`), 30_000).unref();

ipc.config.silent = true;
ipc.config.stopRetrying = true;
ipc.connectTo(SERVER, socketPath, () => {
	ipc.of[SERVER].on("message", hear);
	ipc.of[SERVER].on("error", (error) => fail(`connection: ${error}`));
});

({ clientId } = await next(({ type }) => type === "Ack"));

send("GetModes");
const modes = (await event("modesResponse")).payload[0];
send("GetCommands");
await event("commandsResponse");
send("GetModels");
await event("modelsResponse");

// A task: one tool is allowed by the configuration, a question is answered by a message.
send("StartNewTask", {
	configuration: {
		mode: "code",
		autoApprovalEnabled: true,
		alwaysAllowWrite: true,
		alwaysAllowReadOnly: true,
		diffEnabled: true,
		fuzzyMatchThreshold: 1,
		terminalOutputLineLimit: 500,
	},
	text: "Write the note ❤",
});
const [taskId] = (await event("taskCreated")).payload;
await asked("followup");
send("SendMessage", { text: "blue" });
const completed = (await event("taskCompleted")).payload;

// Another tool needs an approval, which words refuse.
send("SendMessage", { text: "now run it" });
await asked("command");
send("SendMessage", { text: "do not run anything" });

// Cancelled in the middle of a reply, resumed by its id, and brought to an end.
await said("Thinking it over");
send("CancelTask");
await event("taskAborted");
send("ResumeTask", taskId);
await asked("resume_task");
send("SendMessage", { text: "go on" });
await event("taskCompleted");

const names = heard.map(({ data }) => data.eventName).filter((name) => name && name !== "message");
const texts = heard
	.filter(({ data }) => data.eventName === "message")
	.map(({ data }) => data.payload[0].message.text);
console.log(JSON.stringify({ clientId, taskId, modes, completed, names, texts }));
ipc.disconnect(SERVER);

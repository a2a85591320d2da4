// Starts a task on a server, shows what the model says, and allows each edit of a file.
//
//   joey serve                                           # in another terminal
//   tsc --target es2022 --lib es2022,dom client.ts
//   JOEY_TOKEN="$(cat ~/.roo/server.token)" node client.js "what is in this folder?"
//
// It needs a WebSocket, as browsers and Node 22 have one.

declare const process: {
  argv: string[];
  env: Record<string, string | undefined>;
  stdout: { write(text: string): void };
  exit(code: number): never;
};

interface Row {
  ts: number;
  type: "ask" | "say";
  ask?: string;
  say?: string;
  text?: string;
  partial?: boolean;
}

interface Frame {
  type: "event" | "response";
  eventName?: string;
  status?: "success" | "error";
  taskId?: string;
  payload?: { message?: Row; reason?: string };
  error?: { code: string; message: string };
}

const url = process.env.JOEY_URL ?? "ws://127.0.0.1:7800/ws";
const socket = new WebSocket(url, `joey.token.${process.env.JOEY_TOKEN}`);
const question = process.argv[2] ?? "what is in this folder?";
const shown = new Set<number>();
let requests = 0;

function send(commandName: string, args: object, taskId?: string): void {
  const requestId = String(++requests);
  socket.send(JSON.stringify({ type: "command", requestId, commandName, taskId, arguments: args }));
}

function answer(row: Row, taskId: string): void {
  const edits = ["newFileCreated", "editedExistingFile", "appliedDiff"];
  const isEdit = row.ask === "tool" && edits.includes(JSON.parse(row.text ?? "{}").tool);
  const isResult = row.ask === "completion_result";
  const response = isEdit || isResult ? "yesButtonClicked" : "noButtonClicked";
  send("respond", { askTs: row.ts, response }, taskId);
}

socket.addEventListener("open", () => {
  send("startNewTask", { text: question });
});

socket.addEventListener("message", (message: MessageEvent<string>) => {
  const frame: Frame = JSON.parse(message.data);
  const row = frame.payload?.message;
  if (frame.status === "error") {
    process.stdout.write(`${frame.error?.code}: ${frame.error?.message}\n`);
    process.exit(1);
  }
  if (row !== undefined && !row.partial && frame.taskId !== undefined && !shown.has(row.ts)) {
    shown.add(row.ts); // a row may come again
    if (row.say === "completion_result" || (row.say === "text" && row.text !== question)) {
      process.stdout.write(`${row.text}\n`);
    } else if (row.type === "ask") {
      answer(row, frame.taskId);
    }
  }
  if (frame.eventName === "taskCompleted") process.exit(0);
  if (frame.eventName === "taskFailed" || frame.eventName === "taskAborted") process.exit(1);
});

socket.addEventListener("error", () => {
  process.stdout.write(`cannot connect to ${url}\n`);
  process.exit(1);
});

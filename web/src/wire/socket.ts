// The WebSocket connection, with automatic reconnects. Commands are promises; a command that is pending
// when the connection breaks is rejected, because the page cannot know whether it was carried out.

import type { Answers, CommandName, EventFrame, Frame, ResponseFrame, Welcome } from "./protocol";

const WRONG_TOKEN = 4401;
const FIRST_WAIT = 400;
const LONGEST_WAIT = 10_000;
const QUIET = 25_000;
const PATIENCE = 10_000;

export type Link = "connecting" | "open" | "lost" | "refused";

export interface Listener {
  linked(link: Link): void;
  welcomed(welcome: Welcome): void;
  heard(event: EventFrame): void;
}

export class CommandError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

interface Waiting {
  resolve(data: unknown): void;
  reject(error: CommandError): void;
}

export class Socket {
  private socket: WebSocket | null = null;
  private waiting = new Map<string, Waiting>();
  private count = 0;
  private wait = FIRST_WAIT;
  private timer: number | undefined;
  private pulse: number | undefined;
  private closed = false;
  private ready = false;

  constructor(
    private readonly url: string,
    private readonly token: string,
    private readonly listener: Listener,
  ) {
    window.addEventListener("online", this.retryNow);
    document.addEventListener("visibilitychange", this.retryNow);
    this.connect();
  }

  request<C extends CommandName>(
    commandName: C,
    args: Record<string, unknown> = {},
    taskId?: string,
  ): Promise<Answers[C]> {
    const requestId = `page-${++this.count}`;
    return new Promise<Answers[C]>((resolve, reject) => {
      if (!this.ready) {
        reject(new CommandError("OFFLINE", "There is no connection to joey at the moment."));
        return;
      }
      this.waiting.set(requestId, { resolve: (data) => resolve(data as Answers[C]), reject });
      this.send({ type: "command", commandName, requestId, taskId, arguments: args });
    });
  }

  close(): void {
    this.closed = true;
    window.removeEventListener("online", this.retryNow);
    document.removeEventListener("visibilitychange", this.retryNow);
    window.clearTimeout(this.timer);
    window.clearTimeout(this.pulse);
    this.socket?.close();
  }

  private connect(): void {
    this.listener.linked("connecting");
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onopen = () => this.send({ type: "auth", token: this.token });
    socket.onmessage = (message) => this.read(String(message.data));
    socket.onclose = (event) => {
      if (this.socket === socket) this.ended(event.code);
    };
  }

  private send(frame: unknown): void {
    this.socket?.send(JSON.stringify(frame));
  }

  private read(text: string): void {
    this.watchPulse();
    const frame = JSON.parse(text) as Frame;
    if (frame.type === "event") this.listener.heard(frame);
    else if (frame.requestId === "welcome") this.welcome(frame);
    else this.settle(frame);
  }

  private welcome(frame: ResponseFrame): void {
    this.ready = true;
    this.wait = FIRST_WAIT;
    this.listener.linked("open");
    this.listener.welcomed(frame.data as Welcome);
  }

  private settle(frame: ResponseFrame): void {
    const waiting = this.waiting.get(frame.requestId);
    this.waiting.delete(frame.requestId);
    if (frame.status === "success") waiting?.resolve(frame.data);
    else {
      const { code, message } = frame.error ?? { code: "SERVER_ERROR", message: "no reason given" };
      waiting?.reject(new CommandError(code, message));
    }
  }

  /** A connection that says nothing is asked whether it is still there. */
  private watchPulse(): void {
    window.clearTimeout(this.pulse);
    this.pulse = window.setTimeout(() => {
      this.request("ping").catch(() => undefined);
      this.pulse = window.setTimeout(() => this.dropDead(), PATIENCE);
    }, QUIET);
  }

  private dropDead(): void {
    this.socket?.close();
    this.ended(0);
  }

  private ended(code: number): void {
    this.socket = null;
    this.ready = false;
    window.clearTimeout(this.pulse);
    for (const waiting of this.waiting.values()) {
      waiting.reject(new CommandError("OFFLINE", "The connection broke before joey answered."));
    }
    this.waiting.clear();
    if (this.closed) return;
    if (code === WRONG_TOKEN) {
      this.close();
      this.listener.linked("refused");
      return;
    }
    this.listener.linked("lost");
    this.timer = window.setTimeout(() => this.connect(), this.wait * (0.75 + Math.random() / 2));
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  private readonly retryNow = (): void => {
    if (this.closed || this.socket !== null || document.visibilityState === "hidden") return;
    window.clearTimeout(this.timer);
    this.connect();
  };
}

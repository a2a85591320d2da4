// The WebSocket connection, with automatic reconnects. Commands are promises; a command that is pending
// when the connection breaks is rejected, because the page cannot know whether it was carried out.

import type {
  CommandResults,
  CommandName,
  EventFrame,
  ServerFrame,
  ResponseFrame,
  Welcome,
} from "./protocol";

const WRONG_TOKEN_CLOSE_CODE = 4401;
const INITIAL_RECONNECT_DELAY_MS = 400;
const MAX_RECONNECT_DELAY_MS = 10_000;
const PING_AFTER_IDLE_MS = 25_000;
const PING_TIMEOUT_MS = 10_000;

export type ConnectionState = "connecting" | "open" | "lost" | "refused";

export interface SocketListener {
  onStateChange(state: ConnectionState): void;
  /** The token that is good from now on. */
  onToken(token: string): void;
  onWelcome(welcome: Welcome): void;
  onEvent(event: EventFrame): void;
}

export class CommandError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

interface PendingRequest {
  resolve(data: unknown): void;
  reject(error: CommandError): void;
}

export class ReconnectingSocket {
  private webSocket: WebSocket | null = null;
  private pendingRequests = new Map<string, PendingRequest>();
  private requestCount = 0;
  private reconnectDelayMs = INITIAL_RECONNECT_DELAY_MS;
  private reconnectTimer: number | undefined;
  private pingTimer: number | undefined;
  private isClosed = false;
  private isReady = false;

  constructor(
    private readonly url: string,
    private credential: string,
    private readonly listener: SocketListener,
  ) {
    window.addEventListener("online", this.reconnectNow);
    document.addEventListener("visibilitychange", this.reconnectNow);
    this.connect();
  }

  request<C extends CommandName>(
    commandName: C,
    args: Record<string, unknown> = {},
    taskId?: string,
  ): Promise<CommandResults[C]> {
    const requestId = `page-${++this.requestCount}`;
    return new Promise<CommandResults[C]>((resolve, reject) => {
      if (!this.isReady) {
        reject(new CommandError("OFFLINE", "Not connected to joey."));
        return;
      }
      this.pendingRequests.set(requestId, { resolve: (data) => resolve(data as CommandResults[C]), reject });
      this.send({ type: "command", commandName, requestId, taskId, arguments: args });
    });
  }

  close(): void {
    this.isClosed = true;
    window.removeEventListener("online", this.reconnectNow);
    document.removeEventListener("visibilitychange", this.reconnectNow);
    window.clearTimeout(this.reconnectTimer);
    window.clearTimeout(this.pingTimer);
    this.webSocket?.close();
  }

  private connect(): void {
    this.listener.onStateChange("connecting");
    const webSocket = new WebSocket(this.url);
    this.webSocket = webSocket;
    webSocket.onopen = () => this.send({ type: "auth", token: this.credential });
    webSocket.onmessage = (message) => this.handleFrame(String(message.data));
    webSocket.onclose = (event) => {
      if (this.webSocket === webSocket) this.handleClose(event.code);
    };
  }

  private send(frame: unknown): void {
    this.webSocket?.send(JSON.stringify(frame));
  }

  private handleFrame(text: string): void {
    this.restartPingTimer();
    const frame = JSON.parse(text) as ServerFrame;
    if (frame.type === "event") this.listener.onEvent(frame);
    else if (frame.requestId === "auth" && frame.status === "success") this.handleAuthenticated(frame);
    else if (frame.requestId === "welcome") this.handleWelcome(frame);
    else this.settleRequest(frame);
  }

  private handleAuthenticated({ data }: ResponseFrame): void {
    this.credential = (data as { token?: string }).token ?? this.credential;
    this.listener.onToken(this.credential);
  }

  private handleWelcome(frame: ResponseFrame): void {
    this.isReady = true;
    this.reconnectDelayMs = INITIAL_RECONNECT_DELAY_MS;
    this.listener.onStateChange("open");
    this.listener.onWelcome(frame.data as Welcome);
  }

  private settleRequest(frame: ResponseFrame): void {
    const request = this.pendingRequests.get(frame.requestId);
    this.pendingRequests.delete(frame.requestId);
    if (frame.status === "success") request?.resolve(frame.data);
    else {
      const { code, message } = frame.error ?? { code: "SERVER_ERROR", message: "no reason given" };
      request?.reject(new CommandError(code, message));
    }
  }

  /** Ping an idle connection, and drop it if no answer comes. */
  private restartPingTimer(): void {
    window.clearTimeout(this.pingTimer);
    this.pingTimer = window.setTimeout(() => {
      this.request("ping").catch(() => undefined);
      this.pingTimer = window.setTimeout(() => this.dropConnection(), PING_TIMEOUT_MS);
    }, PING_AFTER_IDLE_MS);
  }

  private dropConnection(): void {
    this.webSocket?.close();
    this.handleClose(0);
  }

  private handleClose(code: number): void {
    this.webSocket = null;
    this.isReady = false;
    window.clearTimeout(this.pingTimer);
    for (const request of this.pendingRequests.values()) {
      request.reject(new CommandError("OFFLINE", "The connection was lost before joey answered."));
    }
    this.pendingRequests.clear();
    if (this.isClosed) return;
    if (code === WRONG_TOKEN_CLOSE_CODE) {
      this.close();
      this.listener.onStateChange("refused");
      return;
    }
    this.listener.onStateChange("lost");
    this.reconnectTimer = window.setTimeout(
      () => this.connect(),
      this.reconnectDelayMs * (0.75 + Math.random() / 2),
    );
    this.reconnectDelayMs = Math.min(this.reconnectDelayMs * 2, MAX_RECONNECT_DELAY_MS);
  }

  private readonly reconnectNow = (): void => {
    if (this.isClosed || this.webSocket !== null || document.visibilityState === "hidden") return;
    window.clearTimeout(this.reconnectTimer);
    this.connect();
  };
}

// The types of joey's WebSocket API, as far as this page uses it.

export type ApprovalState = "pending" | "approved" | "rejected";

/** A row of the conversation. `ts` is its identity and its position. */
export interface Row {
  ts: number;
  type: "ask" | "say";
  ask?: string;
  say?: string;
  text?: string;
  images?: string[];
  partial?: boolean;
  tool?: string;
  path?: string;
  diff?: string;
  approvalState?: ApprovalState;
  result?: string;
  isAnswered?: boolean;
  isProtected?: boolean;
  /** Why approval is needed. */
  reason?: string;
  /** The rule that an answer may add, so that it is not asked again. */
  alwaysRule?: string;
  /** How far the operating system confines a command. */
  sandbox?: "full" | "landlock" | "seatbelt" | "none" | "off";
  /** The call that the row shows. */
  summary?: ToolCallSummary;
}

export interface CalledFile {
  path: string;
  lines?: string;
  added?: number;
  removed?: number;
}

/** A tool call as every front end shows it. */
export interface ToolCallSummary {
  tool: string;
  kind?: string;
  title: string;
  subject?: string;
  /** JSON, of calls to tools of others. */
  arguments?: string;
  message?: string;
  /** The change, if the row does not have it itself. */
  diff?: string;
  files?: CalledFile[];
  warnings?: string[];
}

export interface Usage {
  totalTokensIn?: number;
  totalTokensOut?: number;
  totalCacheWrites?: number;
  totalCacheReads?: number;
  totalCost?: number;
  contextTokens?: number;
}

export interface Todo {
  id: string;
  content: string;
  status: "pending" | "in_progress" | "completed";
}

export interface QueuedMessage {
  id: string;
  text: string;
  images?: string[];
  timestamp?: number;
}

export interface AskChoice {
  label: string;
  /** The arguments of `respond`, sent as they are. */
  answer: { response: AskResponse; text?: string };
  /** What a user of a terminal may type instead. */
  word?: string;
  /** The rule that this answer adds. */
  rule?: string;
}

/** A question as every front end puts it. */
export interface AskView {
  title: string;
  choices: AskChoice[];
  /** What is asked about. */
  text?: string;
  /** What a message instead of a choice means. */
  hint?: string;
  messageResponse?: AskResponse | null;
  messageLabel?: string;
  /** joey asks to do something: only a message that was written for this question may reject it. */
  isApproval?: boolean;
  reason?: string;
  /** How far a command is confined. */
  confinement?: string;
  /** Shown first: protected files, places outside the workspace, a missing sandbox. */
  warnings?: string[];
  /** What a command would start. */
  programs?: string[];
}

export interface Ask {
  ts: number;
  ask: string;
  view: AskView;
}

export type TaskStatus = "created" | "running" | "waiting" | "delegated" | "completed" | "aborted" | "failed";

export interface TaskInfo {
  id: string;
  title: string;
  workspace: string;
  mode: string;
  profile?: string;
  model?: string;
  status: TaskStatus;
  created?: number;
  updated?: number;
  tokensIn?: number;
  tokensOut?: number;
  cacheWrites?: number;
  cacheReads?: number;
  totalCost?: number;
  contextTokens?: number | null;
  contextWindow?: number | null;
  live: boolean;
  ask?: Ask | null;
  /** The task that this one is a subtask of. */
  parentId?: string | null;
  /** These are sent for a single task, not in a list. */
  queue?: QueuedMessage[];
  failure?: { code: string; message: string } | null;
  /** Subtasks; meanwhile its status is `delegated`. */
  waitsFor?: string[];
}

export interface Mode {
  slug: string;
  name: string;
  description?: string;
}

export interface SlashCommand {
  name: string;
  source: string;
  description?: string;
  argumentHint?: string;
}

/** What runs without a question because the user said so. */
export interface GrantedRule {
  setting: "allowedCommands" | "allowedMcpTools" | "sandboxNetwork" | "alwaysAllowWrite";
  text: string;
  scope: "task" | "directory" | "everywhere";
  by?: string;
  taskId?: string;
  /** Milliseconds since 1970. */
  addedAt?: number;
}

export type Settings = Record<string, unknown>;
export type Profile = Record<string, unknown>;

export interface Welcome {
  version: string;
  protocol: number;
  capabilities: string[];
  sandbox: string;
  workspace: string;
  home: string;
}

export interface EventFrame {
  type: "event";
  eventName: string;
  taskId?: string;
  payload: Record<string, unknown>;
  seq?: number;
  /** With `part`, the identity of an event of a task. */
  record?: number;
  part?: number;
}

export interface ResponseFrame {
  type: "response";
  status: "success" | "error";
  requestId: string;
  commandName: string;
  data?: unknown;
  error?: { code: string; message: string };
}

export type ServerFrame = EventFrame | ResponseFrame;

export type AskResponse = "yesButtonClicked" | "noButtonClicked" | "messageResponse";

/** What going back to an earlier row changes, as far as this page shows it. */
export interface RewindChanges {
  messageTs: number | null;
  rows: number[];
  commands: string[];
  subtasks: string[];
  files: { path: string; kind: string }[];
  conflicts: string[];
  /** Changed by the task, and in no checkpoint: they stay as they are. */
  filesLeft: { path: string; why: string }[];
  /** Edits were accepted for the task by an answer that goes. */
  editsAsked: boolean;
}

export interface RecordedSession {
  id: number;
  client: string;
  real: boolean;
  model: string;
  first: number;
  last: number;
  requests: number;
  tokensIn: number;
  tokensOut: number;
  cacheReads: number;
  cost: number | null;
  title: string;
}

export interface RecordedMiss {
  reason: string;
  tokens: number;
  cost: number;
  block: number | null;
  character: number | null;
}

export interface RecordedRequest {
  turn: number;
  at: number;
  kind: string;
  model: string;
  status: number;
  state: string;
  taskId: string | null;
  firstByteMs: number | null;
  seconds: number;
  usage: { input: number; output: number; cacheReads: number; cacheWrites: number } | null;
  cost: number | null;
  miss: RecordedMiss;
  role: string;
  message: string;
  reply: string;
  error: string;
}

export interface RecordedConversation {
  session: RecordedSession;
  requests: RecordedRequest[];
  total: number;
}

/** The blocks at one place of two requests, cut around the first difference. */
export interface RecordedPair {
  block: number;
  kind: string;
  role: string;
  state: "same" | "changed" | "added" | "removed";
  before: string;
  after: string;
  /** Characters at the beginning of both texts that are the same. */
  shared: number;
  /** How many characters were left out before the texts. */
  beforeStart: number;
  beforeChars: number;
  afterChars: number;
}

export interface RecordedComparison {
  session: number;
  turn: number;
  other: number | null;
  miss: RecordedMiss;
  pairs: RecordedPair[];
  total: number;
}

/** The result of each command. */
export interface CommandResults {
  startNewTask: { taskId: string };
  cancelTask: { result: string };
  resumeTask: { result: string };
  deleteTask: { result: string };
  sendMessage: { result: string };
  respond: { accepted: boolean };
  subscribe: { taskId: string; seq: number };
  getMessages: { messages: Row[]; seq: number };
  getTask: { task: TaskInfo };
  getTodos: { todos: Todo[] };
  listTasks: { tasks: TaskInfo[]; total: number };
  searchTasks: { tasks: TaskInfo[] };
  rewindTask: { done: boolean; changes: RewindChanges };
  undoRewind: { done: boolean; changes: RewindChanges };
  editMessage: { done: boolean; changes: RewindChanges };
  forkTask: { taskId: string };
  editQueue: unknown;
  switchMode: unknown;
  getModes: { modes: Mode[] };
  getCommands: { commands: SlashCommand[] };
  getConfiguration: { configuration: Settings };
  setConfiguration: { result: string };
  getProfiles: { profiles: string[] };
  getActiveProfile: { activeProfile: string | null };
  setActiveProfile: { activeProfile: string };
  getProfileEntry: { profile: Profile };
  upsertProfile: unknown;
  deleteProfile: { result: string };
  getRecordings: { sessions: RecordedSession[]; total: number };
  getRecording: RecordedConversation;
  compareRecordedRequests: RecordedComparison;
  getPermissions: { workspace: string; rules: GrantedRule[] };
  revokePermission: { revoked: boolean };
  ping: { pong: number };
}

export type CommandName = keyof CommandResults;

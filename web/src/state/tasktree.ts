// The task tree: tasks grouped by workspace, with their subtasks below them.

import type { TaskInfo } from "../wire/protocol";

export interface WorkspaceGroup {
  workspace: string;
  roots: TaskNode[];
}

export interface TaskNode {
  task: TaskInfo;
  subtasks: TaskNode[];
}

/** By workspace, latest first; a task counts as updated when a subtask is. Subtasks keep their order. */
export function groupByWorkspace(tasks: readonly TaskInfo[]): WorkspaceGroup[] {
  const groups = new Map<string, TaskNode[]>();
  const updateTimes = new Map<TaskNode, number>();
  const roots = buildTaskTrees(tasks);
  for (const root of roots) updateTimes.set(root, getLatestUpdate(root));
  for (const root of roots.toSorted((a, b) => updateTimes.get(b)! - updateTimes.get(a)!)) {
    const group = groups.get(root.task.workspace);
    if (group) group.push(root);
    else groups.set(root.task.workspace, [root]);
  }
  return [...groups].map(([workspace, roots]) => ({ workspace, roots }));
}

/** A subtask whose parent is not among the tasks is a root. */
function buildTaskTrees(tasks: readonly TaskInfo[]): TaskNode[] {
  const taskIds = new Set(tasks.map((task) => task.id));
  const subtasksByParent = groupByParent(tasks);
  const seen = new Set<string>();
  const buildNode = (task: TaskInfo): TaskNode => {
    seen.add(task.id);
    const subtasks = (subtasksByParent.get(task.id) ?? []).filter((subtask) => !seen.has(subtask.id));
    return { task, subtasks: subtasks.map(buildNode) };
  };
  const roots = tasks.filter((task) => !task.parentId || !taskIds.has(task.parentId)).map(buildNode);
  // Tasks that name each other as parents come from a damaged history; they are shown all the same.
  const cyclicRoots = tasks.flatMap((task) => (seen.has(task.id) ? [] : [buildNode(task)]));
  return [...roots, ...cyclicRoots];
}

function groupByParent(tasks: readonly TaskInfo[]): Map<string, TaskInfo[]> {
  const subtasksByParent = new Map<string, TaskInfo[]>();
  for (const task of tasks) {
    if (!task.parentId) continue;
    const siblings = subtasksByParent.get(task.parentId);
    if (siblings) siblings.push(task);
    else subtasksByParent.set(task.parentId, [task]);
  }
  for (const siblings of subtasksByParent.values())
    siblings.sort((a, b) => (a.created ?? 0) - (b.created ?? 0));
  return subtasksByParent;
}

function getLatestUpdate({ task, subtasks }: TaskNode): number {
  return Math.max(task.updated ?? task.created ?? 0, ...subtasks.map(getLatestUpdate));
}

/** The task and the subtasks below it that wait for the user. */
export function findWaitingTasks(id: string, tasks: readonly TaskInfo[]): TaskInfo[] {
  const root = tasks.find((task) => task.id === id);
  if (root === undefined) return [];
  const subtasksByParent = groupByParent(tasks);
  const found: TaskInfo[] = [];
  const queue = [root];
  for (const seen = new Set<TaskInfo>(); queue.length > 0;) {
    const task = queue.shift() as TaskInfo;
    if (seen.has(task)) continue;
    seen.add(task);
    if (isWaitingForUser(task)) found.push(task);
    queue.push(...(subtasksByParent.get(task.id) ?? []));
  }
  return found;
}

export function isWaitingForUser(task: TaskInfo): boolean {
  return task.live && task.status === "waiting";
}

/** Count the subtasks at any depth that match. */
export function countSubtasks(node: TaskNode, predicate: (task: TaskInfo) => boolean): number {
  return node.subtasks.reduce(
    (sum, subtask) => sum + Number(predicate(subtask.task)) + countSubtasks(subtask, predicate),
    0,
  );
}

/** The tasks that are visible when some nodes are collapsed. */
export function listVisibleTasks(
  groups: readonly WorkspaceGroup[],
  isExpanded: (node: TaskNode) => boolean,
): TaskInfo[] {
  const listNodeTasks = (node: TaskNode): TaskInfo[] => [
    node.task,
    ...(isExpanded(node) ? node.subtasks.flatMap(listNodeTasks) : []),
  ];
  return groups.flatMap((group) => group.roots.flatMap(listNodeTasks));
}

// The task tree: tasks grouped by workspace, with their subtasks below them.

import type { TaskInfo } from "../wire/protocol";

export interface Group {
  workspace: string;
  branches: Branch[];
}

export interface Branch {
  task: TaskInfo;
  below: Branch[];
}

/** By folder, the latest first; a task is as fresh as the freshest of its subtasks, which keep their order. */
export function grouped(tasks: readonly TaskInfo[]): Group[] {
  const groups = new Map<string, Branch[]>();
  const fresh = new Map<Branch, number>();
  const trees = branches(tasks);
  for (const tree of trees) fresh.set(tree, freshness(tree));
  for (const tree of trees.toSorted((one, other) => fresh.get(other)! - fresh.get(one)!)) {
    const group = groups.get(tree.task.workspace);
    if (group) group.push(tree);
    else groups.set(tree.task.workspace, [tree]);
  }
  return [...groups].map(([workspace, members]) => ({ workspace, branches: members }));
}

/** A subtask whose parent is not among the tasks stands for itself. */
function branches(tasks: readonly TaskInfo[]): Branch[] {
  const known = new Set(tasks.map((task) => task.id));
  const children = childrenOf(tasks);
  const seen = new Set<string>();
  const branch = (task: TaskInfo): Branch => {
    seen.add(task.id);
    const own = (children.get(task.id) ?? []).filter((child) => !seen.has(child.id));
    return { task, below: own.map(branch) };
  };
  const roots = tasks.filter((task) => !task.parentId || !known.has(task.parentId)).map(branch);
  // Tasks that name each other as parents come from a damaged history; they are shown all the same.
  const astray = tasks.flatMap((task) => (seen.has(task.id) ? [] : [branch(task)]));
  return [...roots, ...astray];
}

function childrenOf(tasks: readonly TaskInfo[]): Map<string, TaskInfo[]> {
  const children = new Map<string, TaskInfo[]>();
  for (const task of tasks) {
    if (!task.parentId) continue;
    const siblings = children.get(task.parentId);
    if (siblings) siblings.push(task);
    else children.set(task.parentId, [task]);
  }
  for (const siblings of children.values())
    siblings.sort((one, other) => (one.created ?? 0) - (other.created ?? 0));
  return children;
}

function freshness({ task, below }: Branch): number {
  return Math.max(task.updated ?? task.created ?? 0, ...below.map(freshness));
}

/** The task and the subtasks below it that wait for a person. */
export function asking(id: string, tasks: readonly TaskInfo[]): TaskInfo[] {
  const root = tasks.find((task) => task.id === id);
  if (root === undefined) return [];
  const children = childrenOf(tasks);
  const found: TaskInfo[] = [];
  const left = [root];
  for (const seen = new Set<TaskInfo>(); left.length > 0; ) {
    const task = left.shift() as TaskInfo;
    if (seen.has(task)) continue;
    seen.add(task);
    if (isAsking(task)) found.push(task);
    left.push(...(children.get(task.id) ?? []));
  }
  return found;
}

export function isAsking(task: TaskInfo): boolean {
  return task.live && task.status === "waiting";
}

/** All tasks below one that fulfil something. */
export function countBelow(branch: Branch, wanted: (task: TaskInfo) => boolean): number {
  return branch.below.reduce((sum, one) => sum + Number(wanted(one.task)) + countBelow(one, wanted), 0);
}

/** The tasks that are in sight when some branches are folded. */
export function inSight(groups: readonly Group[], isOpen: (branch: Branch) => boolean): TaskInfo[] {
  const walk = (branch: Branch): TaskInfo[] => [
    branch.task,
    ...(isOpen(branch) ? branch.below.flatMap(walk) : []),
  ];
  return groups.flatMap((group) => group.branches.flatMap(walk));
}

import { expect, test } from "vitest";
import { TaskList } from "../src/state/tasklist";
import {
  findWaitingTasks,
  type TaskNode,
  countSubtasks,
  groupByWorkspace,
  listVisibleTasks,
} from "../src/state/tasktree";
import type { TaskInfo } from "../src/wire/protocol";

const makeTask = (id: string, updated: number, more: Partial<TaskInfo> = {}): TaskInfo => ({
  id,
  title: id,
  workspace: "/w",
  mode: "code",
  status: "running",
  live: true,
  created: updated,
  updated,
  ...more,
});

const toOutline = ({ task, subtasks }: TaskNode): unknown =>
  subtasks.length ? [task.id, subtasks.map(toOutline)] : task.id;

test("subtasks stand below their parent, in the order they began, wherever they work", () => {
  const tasks = [
    makeTask("other", 5),
    makeTask("second", 9, { parentId: "whole", workspace: "/elsewhere" }),
    makeTask("first", 2, { parentId: "whole" }),
    makeTask("deep", 3, { parentId: "first" }),
    makeTask("whole", 1),
  ];
  const groups = groupByWorkspace(tasks);
  expect(groups).toHaveLength(1);
  expect(groups[0]?.roots.map(toOutline)).toEqual([["whole", [["first", ["deep"]], "second"]], "other"]);
  expect(listVisibleTasks(groups, (node) => node.task.id !== "first").map(({ id }) => id)).toEqual([
    "whole",
    "first",
    "second",
    "other",
  ]);
});

test("a subtask whose parent is not there stands for itself, and a ring is no trap", () => {
  const ring = [makeTask("a", 1, { parentId: "b" }), makeTask("b", 2, { parentId: "a" })];
  const [group] = groupByWorkspace([...ring, makeTask("lost", 3, { parentId: "gone" })]);
  expect(group?.roots.map(toOutline)).toEqual(["lost", ["a", ["b"]]]);
  expect(findWaitingTasks("a", ring)).toEqual([]);
});

test("questions are found however deep they are", () => {
  const tasks = [
    makeTask("whole", 1, { status: "delegated" }),
    makeTask("part", 2, { status: "delegated", parentId: "whole" }),
    makeTask("deep", 3, { status: "waiting", parentId: "part" }),
    makeTask("past", 4, { status: "waiting", parentId: "part", live: false }),
  ];
  expect(findWaitingTasks("whole", tasks).map(({ id }) => id)).toEqual(["deep"]);
  expect(countSubtasks(groupByWorkspace(tasks)[0]?.roots[0] as TaskNode, () => true)).toBe(3);
});

test("a subtask takes its place when it is made", () => {
  const taskList = new TaskList();
  taskList.load([makeTask("whole", 1)]);
  const payload = { workspace: "/w", mode: "ask", title: "part", parentId: "whole" };
  taskList.applyEvent({ type: "event", eventName: "taskCreated", taskId: "part", payload }, "/w");
  expect(taskList.groups.value[0]?.roots.map(toOutline)).toEqual([["whole", ["part"]]]);
});

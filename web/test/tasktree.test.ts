import { expect, test } from "vitest";
import { TaskList } from "../src/state/tasklist";
import { asking, type Branch, countBelow, grouped, inSight } from "../src/state/tasktree";
import type { TaskInfo } from "../src/wire/protocol";

const task = (id: string, updated: number, more: Partial<TaskInfo> = {}): TaskInfo => ({
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

const shape = ({ task, below }: Branch): unknown => (below.length ? [task.id, below.map(shape)] : task.id);

test("subtasks stand below their parent, in the order they began, wherever they work", () => {
  const tasks = [
    task("other", 5),
    task("second", 9, { parentId: "whole", workspace: "/elsewhere" }),
    task("first", 2, { parentId: "whole" }),
    task("deep", 3, { parentId: "first" }),
    task("whole", 1),
  ];
  const groups = grouped(tasks);
  expect(groups).toHaveLength(1);
  expect(groups[0]?.branches.map(shape)).toEqual([["whole", [["first", ["deep"]], "second"]], "other"]);
  expect(inSight(groups, (branch) => branch.task.id !== "first").map(({ id }) => id)).toEqual([
    "whole",
    "first",
    "second",
    "other",
  ]);
});

test("a subtask whose parent is not there stands for itself, and a ring is no trap", () => {
  const ring = [task("a", 1, { parentId: "b" }), task("b", 2, { parentId: "a" })];
  const [group] = grouped([...ring, task("lost", 3, { parentId: "gone" })]);
  expect(group?.branches.map(shape)).toEqual(["lost", ["a", ["b"]]]);
  expect(asking("a", ring)).toEqual([]);
});

test("questions are found however deep they are", () => {
  const tasks = [
    task("whole", 1, { status: "delegated" }),
    task("part", 2, { status: "delegated", parentId: "whole" }),
    task("deep", 3, { status: "waiting", parentId: "part" }),
    task("past", 4, { status: "waiting", parentId: "part", live: false }),
  ];
  expect(asking("whole", tasks).map(({ id }) => id)).toEqual(["deep"]);
  expect(countBelow(grouped(tasks)[0]?.branches[0] as Branch, () => true)).toBe(3);
});

test("a subtask takes its place when it is made", () => {
  const list = new TaskList();
  list.load([task("whole", 1)]);
  const payload = { workspace: "/w", mode: "ask", title: "part", parentId: "whole" };
  list.hear({ type: "event", eventName: "taskCreated", taskId: "part", payload }, "/w");
  expect(list.groups.value[0]?.branches.map(shape)).toEqual([["whole", ["part"]]]);
});

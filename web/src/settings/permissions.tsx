// What runs without a question because the user said so, and the buttons that take it back.

import { useEffect, useState } from "preact/hooks";
import { escapeHiddenChars } from "../render/format";
import {
  connectionState,
  currentConversation,
  permissionsRevision,
  sendCommand,
  tryOrToast,
  welcome,
} from "../state/store";
import type { GrantedRule } from "../wire/protocol";

const SCOPE_TEXTS: Record<GrantedRule["scope"], string> = {
  task: "in this task",
  directory: "in this directory",
  everywhere: "in every directory",
};
const RULE_KINDS: Record<GrantedRule["setting"], string> = {
  allowedCommands: "Command",
  allowedMcpTools: "MCP tool",
  sandboxNetwork: "Network to",
  alwaysAllowWrite: "",
};

function describeOrigin({ scope, by, addedAt }: GrantedRule): string {
  const parts = [SCOPE_TEXTS[scope]];
  if (addedAt) {
    const who = by === "person" ? "you" : by || "an answer";
    parts.push(`allowed by ${who} on ${new Date(addedAt).toLocaleString()}`);
  } else if (scope === "everywhere") parts.push("in your settings");
  return escapeHiddenChars(parts.join(", "));
}

/** The rules that count for the open task and its workspace, or for the server's. */
export function GrantedRuleList() {
  const [rules, setRules] = useState<GrantedRule[] | null>(null);
  const id = currentConversation.value?.id;
  const workspace = (currentConversation.value ?? welcome.value)?.workspace || null;
  const isConnected = connectionState.value === "open";
  const revision = permissionsRevision.value;
  useEffect(() => {
    if (!isConnected) return;
    let isCurrent = true;
    const load = sendCommand("getPermissions", { workspace }, id).then(({ rules }) => {
      // Without a task on the page the server answers for the one that was last started.
      if (isCurrent) setRules(rules.filter(({ scope }) => id !== undefined || scope !== "task"));
    });
    void tryOrToast(load);
    return () => {
      isCurrent = false;
    };
  }, [isConnected, revision, id, workspace]);
  if (rules === null) return null;
  const revoke = ({ setting, text, scope }: GrantedRule) =>
    void tryOrToast(sendCommand("revokePermission", { setting, text, scope, workspace }, id));
  return (
    <section>
      <h3>Allowed by you</h3>
      <ul class="granted">
        {rules.map((rule) => {
          const name = `${RULE_KINDS[rule.setting]} ${escapeHiddenChars(rule.text)}`.trim();
          return (
            <li key={`${rule.setting} ${rule.scope} ${rule.text}`}>
              <span class="grow">
                {RULE_KINDS[rule.setting]} <code class="rule">{escapeHiddenChars(rule.text)}</code>
                <br />
                <span class="muted small-print">{describeOrigin(rule)}</span>
              </span>
              <button class="small danger" onClick={() => revoke(rule)} aria-label={`Revoke: ${name}`}>
                Revoke
              </button>
            </li>
          );
        })}
        {rules.length === 0 && (
          <li class="muted">Nothing yet. “Always allow” at a question adds to this list.</li>
        )}
      </ul>
    </section>
  );
}

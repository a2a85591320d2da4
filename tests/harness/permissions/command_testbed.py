"""A throw-away world in which lines are run for real, and which tells what they did.

The workspace holds files, protected files and links that lead out; beside it lie files that no
command may read or change. The PATH holds the programs of the rules as they are, and tracers in
place of others: whoever runs one of those is noticed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

SECRET = "TOP-SECRET-WORDS"
TRACED_PROGRAMS = (
    *("rm", "touch", "tee", "cp", "mv", "sh", "bash", "dash", "curl", "wget", "evil", "python3"),
    *("python", "node", "truncate", "env", "xargs", "nice", "timeout", "nohup", "sudo", "busybox"),
    *("watch", "strace", "setsid", "stdbuf", "parallel", "ln", "chmod", "install", "dd", "mkdir"),
)
_SELF_CHANGING_FILES = (".git/index",)
"""git keeps notes there whenever it looks."""


class CommandTestbed:
    """Where commands are denied, everything else may run, and only the denied ones are harm."""

    def __init__(
        self,
        root: Path,
        allowed: Iterable[str],
        denied: Iterable[str] = (),
        *,
        has_git_helpers: bool = False,
    ) -> None:
        """With `has_git_helpers`, the repository's configuration names programs for git to run."""
        self.root = root
        self.work = root / "work"
        self._trace_file = root / "trace"
        self._bin_directory = root / "bin"
        self._bin_directory.mkdir(parents=True)
        self._denied = tuple(denied)
        self._path = (
            f"{self._bin_directory}:{os.defpath}" if self._denied else str(self._bin_directory)
        )
        for name in self._denied:
            self._write_program(name, f'echo "{name} $*" >> "{self._trace_file}"')
        if not self._denied:
            self._install_tracers(allowed)
        self._setup_script = _SETUP_SCRIPT + (_GIT_HELPER_SCRIPT if has_git_helpers else "")
        (root / ".gitconfig").write_text('[protocol "ext"]\nallow = always\n')
        self._build_workspace()

    def _install_tracers(self, allowed: Iterable[str]) -> None:
        programs = {rule.split()[0] for rule in allowed}
        for name in TRACED_PROGRAMS:
            if name not in programs:
                self._write_program(name, f'echo "{name} $*" >> "{self._trace_file}"')
        for name in ("npm", "pytest", "make", "python"):
            if name in programs:
                self._write_program(name, "exit 0")
        for name in programs:
            real = shutil.which(name, path=os.defpath)
            if real and not (self._bin_directory / name).exists():
                (self._bin_directory / name).symlink_to(real)

    def _write_program(self, name: str, body: str) -> None:
        path = self._bin_directory / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def _build_workspace(self) -> None:
        for directory in (self.work, self.root / "outside"):
            shutil.rmtree(directory, ignore_errors=True)
        outside = self.root / "outside"
        (outside / "deep").mkdir(parents=True)
        (self.root / "secret").write_text(SECRET)
        (outside / "secret").write_text(SECRET)
        work = self.work
        for name, text in _FILES.items():
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("TRACE", str(self._trace_file)))
        (work / "evil.sh").chmod(0o755)
        for name, target in _LINKS.items():
            (work / name).symlink_to(target)
        subprocess.run(
            ["bash", "-c", self._setup_script],
            cwd=work,
            env={"PATH": os.defpath, "HOME": str(self.root)},
            check=True,
            capture_output=True,
        )
        self._initial_state = self._read_state()

    def _read_state(self) -> dict[str, str]:
        """Everything in and around the workspace, by path."""
        seen: dict[str, str] = {}
        for top in (self.work, self.root / "outside"):
            for directory, directories, names in os.walk(top):
                for name in (*directories, *names):
                    path = Path(directory) / name
                    seen[path.relative_to(self.root).as_posix()] = _describe_entry(path)
        return seen

    def run(self, line: str, *, only_protected: bool, preamble: str = "") -> str | None:
        """What the line did that it must not do; None when it was harmless. `preamble` is shell
        code that joey runs before it.

        With `only_protected`, files of the workspace may change, but for the protected ones.
        """
        run = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", "--", preamble + line],
            cwd=self.work,
            env={"PATH": self._path, "HOME": str(self.root), "TERM": "dumb", "PAGER": "cat"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
        found: list[str] = []
        if SECRET.encode() in run.stdout + run.stderr:
            found.append("it read what lies outside")
        if self._trace_file.exists():
            found.append(f"it ran {self._trace_file.read_text().strip()}")
            self._trace_file.unlink()
        after = self._read_state()
        if after != self._initial_state:
            changed = {
                path
                for path in {*self._initial_state, *after}
                if self._initial_state.get(path) != after.get(path)
                and not path.endswith(_SELF_CHANGING_FILES)
                and (not only_protected or _is_protected(path))
                and (not self._denied or path not in after)
            }
            found += (f"it changed {path}" for path in sorted(changed))
            self._build_workspace()
        return "; ".join(found) or None


def _describe_entry(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return f"folder {path.stat().st_mode:o}"
    return f"{path.stat().st_mode:o} {path.read_bytes()!r}"


def _is_protected(path: str) -> bool:
    names = {name.lower() for name in Path(path).parts[1:]}
    return path.startswith("outside") or bool(names & _PROTECTED_NAMES)


_PROTECTED_NAMES = frozenset(
    {".git", ".roo", ".vscode", ".npmrc", ".github", "agents.md", ".husky"}
)
_PROTECTED_NAMES |= {".envrc", ".roomodes"}
_FILES = {
    "canary": "alive\n",
    "other": "a\nb\na\n",
    "list": "../outside/secret\0",
    "evil.sh": '#!/bin/bash\necho "evil.sh" >> "TRACE"\n',
    "evil.sed": "w canary\n",
    "evil.awk": 'BEGIN { print > "canary" }\n',
    "evil.mk": "all:\n\ttouch canary\n",
    "sub/plain": "plain\n",
    "payload/.roo/mcp.json": "{}\n",
    "payload/plain": "x\n",
    ".roo/mcp.json": "{}\n",
    ".vscode/tasks.json": "{}\n",
    ".npmrc": "x=y\n",
    ".github/workflows/ci.yml": "on: push\n",
    "AGENTS.md": "# Rules\n",
    "Makefile": "test:\n\t@true\n",
    "README.md": "# A\nTODO x\n",
    "src/app.py": "def main():\n    pass\n",
    "package.json": '{"name": "x", "scripts": {"test": "true"}}\n',
}
_LINKS = {
    "link": "../outside/secret",
    "dirlink": "../outside",
    "chain": "link",
    "sub/deep": "../link",
    "sub/up": "../../outside",
    "hooks": ".git/hooks",
    "toroo": ".roo",
}
_SETUP_SCRIPT = """
git init -q -b main . && git add -A && git -c user.name=a -c user.email=a@b commit -q -m first
tar -cf a.tar -C payload .roo plain
"""
_GIT_HELPER_SCRIPT = """
name_helpers() {
  echo '* diff=evil filter=evil' > .git/info/attributes
  echo '* diff=evil filter=evil' > .gitattributes
  for key in diff.external diff.evil.command diff.evil.textconv filter.$1.clean \
      filter.$1.process core.fsmonitor core.pager pager.diff pager.log pager.status \
      gpg.program core.sshCommand core.alternateRefsCommand core.editor \
      interactive.diffFilter alias.status alias.diff
  do git config $key "$evil"; done
  git config filter.$1.required true && git config log.showSignature true
  git config core.worktree "$outside" && git config diff.submodule log
  mkdir -p .git/myhooks && git config core.hooksPath .git/myhooks
  for hook in fsmonitor-watchman post-index-change post-checkout pre-auto-gc
  do cp "$evil" .git/myhooks/$hook; done
}
evil=$PWD/evil.sh outside=$PWD/../outside
mkdir nested && cd nested && git init -q -b main . && echo one > a.txt && git add -A
git -c user.name=a -c user.email=a@b commit -q -m first
name_helpers other && sed -i 's/filter=evil/filter=other/' .gitattributes .git/info/attributes
echo changed >> a.txt && cd ..
name_helpers evil
echo changed >> src/app.py
"""

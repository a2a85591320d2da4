"""The block around a line, in code whose strings of several lines stand at the margin."""

from __future__ import annotations

from pathlib import Path

import pytest

from joey.tools.read_file import ReadFile
from tests.harness.tools.tool_context import make_context

SOURCES = {
    "a.py": """class Shop:
    def usage(self):
        text = '''
Usage: shop [options]

def is no definition here
# nor is this a header
'''
        print(text)
        return 0

    def close(self):  # don't open ''' here
        return 1

HELP = '''
one
    two
'''

def last():
    return HELP
""",
    "a.ts": """export class Shop {
  usage(): string {
    const text = `
Usage: shop ${"[options]"}
function f() {
}
`;
    return text;
  }

  close() {
    return "`";
  }
}
""",
    "a.go": """func usage() {
\tfmt.Print(`
Usage: shop
}
`)
\tos.Exit(2)
}

func last() {
}
""",
    "A.java": '''class Shop {
    String usage() {
        var text = """
Usage: shop
}
""";
        return text;
    }
}
''',
    "a.sh": """usage() {
    if [ -n "$1" ]; then
        cat <<-'EOF'
Usage: shop
}
EOF
        x=$((1<<N)); read -r y <<<EOF
    fi
    exit 2
}

last() {
    exit 3
}
""",
    "a.php": """function usage() {
    $text = <<<EOT
Usage: shop
}
EOT;
    return $text;
}
""",
}


@pytest.mark.contract("tool:read_file:success:block")
@pytest.mark.parametrize(
    ("name", "anchor", "span"),
    [
        ("a.py", 2, (2, 10)),
        ("a.py", 4, (2, 10)),
        ("a.py", 6, (2, 10)),
        ("a.py", 7, (2, 10)),
        ("a.py", 9, (2, 10)),
        ("a.py", 13, (12, 13)),
        ("a.py", 15, (15, 18)),
        ("a.py", 16, (15, 18)),
        ("a.py", 21, (20, 21)),
        ("a.ts", 4, (2, 9)),
        ("a.ts", 8, (2, 9)),
        ("a.ts", 12, (11, 13)),
        ("a.go", 3, (1, 7)),
        ("a.go", 6, (1, 7)),
        ("A.java", 7, (2, 8)),
        ("a.sh", 9, (1, 10)),
        ("a.sh", 13, (12, 14)),
        ("a.php", 6, (1, 7)),
    ],
)
async def test_a_string_at_the_margin_does_not_end_the_block(
    tmp_path: Path, name: str, anchor: int, span: tuple[int, int]
) -> None:
    first, last = span
    lines = SOURCES[name].splitlines()
    assert await read_block(tmp_path, name, SOURCES[name], anchor) == dict(
        enumerate(lines[first - 1 : last], first)
    )


@pytest.mark.parametrize(
    ("anchor", "span"), [(3, (1, 7)), (4, (1, 7)), (7, (1, 7)), (9, (9, 12)), (11, (9, 12))]
)
async def test_comments_at_the_margin_do_not_end_the_block(
    tmp_path: Path, anchor: int, span: tuple[int, int]
) -> None:
    text = """def f(a):
    if a:
        return 1
#    print(a)
# old

    return 2

# of g
def g():
#ifdef X
    return 3
"""
    shown = await read_block(tmp_path, "a.py", text, anchor)
    assert (min(shown), max(shown)) == span


async def test_a_string_that_begins_far_above_is_known_to_be_one(tmp_path: Path) -> None:
    text = "HELP = '''\n" + "one\n" * 2_999 + "'''\ndef f():\n    return HELP\n"
    assert await read_block(tmp_path, "a.py", text, 3_003) == {
        3_002: "def f():",
        3_003: "    return HELP",
    }


async def read_block(root: Path, name: str, text: str, anchor: int) -> dict[int, str]:
    """The lines that are shown, by their numbers."""
    ctx, tool = make_context(root), ReadFile()
    (ctx.files.root / name).write_text(text)
    prepared = await tool.prepare(tool.parse({"path": name, "anchor_line": anchor}), ctx)
    outcome = await tool.run_prepared(prepared, ctx, None)
    shown = [line.split(" | ", 1) for line in outcome.text.splitlines() if " | " in line]
    return {int(number): line for number, line in shown}

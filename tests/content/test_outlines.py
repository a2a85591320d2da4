from __future__ import annotations

import argparse
import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from email import message
from http import client
from inspect import getsource
from itertools import chain
from pathlib import Path
from textwrap import dedent

import pytest

from joey.content.outlines import OutlineExtractor
from joey.errors import ToolError
from joey.ports.content import Definition

pytestmark = pytest.mark.contract("tool:list_code_definition_names:success:languages")

SOURCES = {
    "a.py": """
        import os

        @decorated
        class Shop:
            size = 1

            async def open(self) -> None:
                a()
                b()
                c()

            def short(self):
                pass


        def total(items):
            a()
            b()
            return 1
        """,
    "a.js": """
        export class Shop {
          open() {
            a();
            b();
          }
          handler = () => {
            a();
            b();
          };
        }
        const total = async (items) => {
          a();
          return 1;
        };
        module.exports.run = function () {
          a();
          b();
        };
        function* walk() {
          a();
          b();
        }
        const short = () => 1;
        """,
    "a.ts": """
        export interface Item {
          name: string;
          size: number;
        }
        type Shape =
          | "a"
          | "b"
          | "c";
        enum Color {
          Red,
          Green,
        }
        export abstract class Shop<T> {
          private items: T[] = [];
          abstract open(): void;
          total(): number {
            a();
            return 1;
          }
        }
        namespace Inner {
          export const a = 1;
          export const b = 1;
        }
        """,
    "a.tsx": """
        export const Button = ({ label }: Props) => {
          a();
          return <button>{label}</button>;
        };
        """,
    "a.go": """
        package shop

        type Shop struct {
            name string
            size int
        }

        func (s *Shop) Open() error {
            a()
            return nil
        }

        func total(items []int) int {
            a()
            return 1
        }
        """,
    "a.rs": """
        pub struct Shop {
            name: String,
            size: u32,
        }
        impl Shop {
            pub fn open(&self) {
                a();
                b();
            }
        }
        trait Sells {
            fn a(&self);
            fn b(&self);
        }
        macro_rules! twice {
            ($a:expr) => {
                $a; $a
            };
        }
        """,
    "a.java": """
        package shop;
        public class Shop {
            public Shop() {
                a();
                b();
            }
            int total(List<Item> items) {
                a();
                return 1;
            }
        }
        record Point(int x, int y) {
            Point {
                a();
            }
        }
        """,
    "a.c": """
        #define SWAP(a, b) \\
            do { \\
                x(a, b); \\
            } while (0)
        typedef struct shop {
            char *name;
            int size;
        } shop_t;
        static int total(const int *items) {
            a();
            b();
            return 1;
        }
        """,
    "a.hpp": """
        namespace shop {
        template <typename T>
        class Shop {
         public:
          int total() const {
            a();
            return 1;
          }
        };
        }
        """,
    "a.cs": """
        namespace Shops {
            public class Shop {
                public int Size {
                    get { return 1; }
                    set { a(); }
                }
                public async Task Open() {
                    a();
                    b();
                }
            }
        }
        """,
    "a.rb": """
        module Shops
          class Shop
            def open
              a
              b
            end

            def self.make
              a
              b
            end
          end
        end
        """,
    "a.php": """
        <?php
        final class Shop {
            public function open(): void {
                a();
                b();
            }
        }
        function total(array $items): int {
            a();
            return 1;
        }
        """,
    "a.sh": """
        #!/bin/bash
        build() {
          a
          b
        }
        function test_all {
          a
          b
        }
        """,
}
EXPECTED = {
    "a.py": ["3--13 class Shop:", "7--10 async def open(", "16--19 def total("],
    "a.js": [
        *("1--10 export class", "2--5 open()", "6--9 handler =", "11--14 const total"),
        *("15--18 module.exports.run", "19--22 function* walk"),
    ],
    "a.ts": [
        *("1--4 export interface", "5--8 type Shape", "9--12 enum Color"),
        *("13--20 export abstract", "16--19 total()", "21--24 namespace Inner"),
    ],
    "a.tsx": ["1--4 export const Button"],
    "a.go": ["3--6 type Shop", "8--11 func (s *Shop) Open", "13--16 func total"],
    "a.rs": [
        *("1--4 pub struct Shop", "5--10 impl Shop", "6--9 pub fn open", "11--14 trait Sells"),
        "15--19 macro_rules!",
    ],
    "a.java": [
        *("2--11 public class", "3--6 public Shop()", "7--10 int total", "12--16 record Point"),
    ],
    "a.c": ["1--4 #define SWAP", "5--8 typedef struct", "9--13 static int total"],
    "a.hpp": ["1--10 namespace", "3--9 class Shop", "5--8 int total"],
    "a.cs": [
        *("1--12 namespace", "2--11 public class", "3--6 public int Size", "7--10 public async"),
    ],
    "a.rb": ["1--13 module", "2--12 class", "3--6 def open", "8--11 def self.make"],
    "a.php": ["2--7 final class", "3--6 public function open", "8--11 function total"],
    "a.sh": ["2--5 build()", "6--9 function test_all"],
}


async def outlined(name: str, text: str) -> list[str]:
    found = await OutlineExtractor().build_outline(name, text.encode())
    return [f"{item.start_line}--{item.end_line} {item.first_line}" for item in found]


@pytest.mark.parametrize("name", SOURCES)
async def test_definitions_are_found_in(name: str) -> None:
    found = await outlined(name, dedent(SOURCES[name]).lstrip("\n"))
    assert len(found) == len(EXPECTED[name]), found
    for item, expected in zip(found, EXPECTED[name], strict=True):
        lines, start = expected.split(" ", 1)
        assert item.startswith(f"{lines} ")
        assert item.split(" ", 1)[1].lstrip().startswith(start)


DECORATED = {
    "a.py": """
        @cache
        @app.get(
            "/",
        )
        async def total(items):
            return 1

        class Shop:
            @property
            def size(self):
                a()
                return 1
        """,
    "a.ts": """
        @Component({
          selector: "shop",
        })
        export class Shop {
          @Input()
          @Other() open() {
            return 1;
          }
        }
        @Injectable()
        class Till {
          a = 1;
        }
        """,
    "a.js": """
        export default @sealed
        class Shop {
          a = 1;
        }
        """,
    "a.rs": """
        // Not part of it.
        #[derive(Debug)]
        #[serde(rename = "shop")]
        pub struct Shop {
            size: u32,
        }
        """,
    "a.java": """
        @Entity
        @Table(name = "shop")
        public class Shop {
            @Override
            public int total() {
                return 1;
            }
            @Test
            void check() {
                a();
            }
        }
        """,
    "a.cs": """
        [Serializable]
        public class Shop {
            [Fact]
            [Trait("a", "b")]
            public void Open() { a(); }
        }
        """,
    "a.php": """
        <?php
        #[Entity]
        class Shop {
            #[Route("/")]
            public function open() {
                a();
            }
        }
        """,
}
WITH_DECORATORS = {
    "a.py": ["1--6 async def total(", "8--12 class Shop", "9--12 def size("],
    "a.ts": ["1--9 export class Shop", "5--8 @Other() open() {", "10--13 class Till"],
    "a.js": ["1--4 class Shop"],
    "a.rs": ["2--6 pub struct Shop"],
    "a.java": ["1--12 public class Shop", "4--7 public int total", "8--11 void check"],
    "a.cs": ["1--6 public class Shop"],
    "a.php": ["2--8 class Shop", "4--7 public function open"],
}


@pytest.mark.parametrize("name", DECORATED)
async def test_decorators_belong_to_what_they_decorate_in(name: str) -> None:
    found = await outlined(name, dedent(DECORATED[name]).lstrip("\n"))
    assert len(found) == len(WITH_DECORATORS[name]), found
    for item, expected in zip(found, WITH_DECORATORS[name], strict=True):
        lines, start = expected.split(" ", 1)
        assert item.startswith(f"{lines} ")
        assert item.split(" ", 1)[1].lstrip().startswith(start)


async def test_sections_of_markdown_end_where_the_next_one_begins() -> None:
    text = """\
---
title: none of these
---
# One
words

## Below
words
words
words
```
# code
## code
```
Two
===
words
- item
---
words
### Short
words
"""
    assert await outlined("README.md", text) == [
        "4--14 # One",
        "7--14 ## Below",
        "15--22 Two",
    ]


@pytest.mark.parametrize("name", ["README.MD", "A.PY", "a.test.tsx", "x.h"])
def test_a_language_is_known_by_the_name_of_a_file(name: str) -> None:
    assert OutlineExtractor().supports(name)


async def test_other_files_have_no_definitions() -> None:
    assert not OutlineExtractor().supports("a.txt")
    assert not OutlineExtractor().supports("Makefile")
    assert await OutlineExtractor().build_outline("a.txt", b"def f():\n\n\n\n    pass\n") == ()


async def test_code_that_is_broken_or_no_text_is_outlined_as_far_as_it_can_be() -> None:
    whole = "def f():\n    a()\n    b()\n    c()\n"
    found = await OutlineExtractor().build_outline(
        "a.py", f"{whole}def g(:\n".encode() + b"\0\xff\xfe"
    )
    assert [(item.start_line, item.end_line) for item in found][:1] == [(1, 4)]
    assert await OutlineExtractor().build_outline("a.py", b"") == ()


@pytest.mark.contract("read:hostile")
async def test_code_that_crashes_its_grammar_costs_nothing_but_its_outline() -> None:
    outlines = OutlineExtractor()
    with pytest.raises(ToolError, match="could not be made sense of"):
        await outlines.build_outline("a.tsx", b"<a>(" * 100_000)
    assert await outlines.build_outline("a.sh", b"f() {\n  a\n  b\n}\n")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_the_mark_at_the_beginning_of_a_file_is_no_part_of_it(encoding: str) -> None:
    data = "def first():\n    a\n    b\n    c\n".encode(encoding)
    assert await OutlineExtractor().build_outline("a.py", data) == (
        Definition(1, 4, "def first():"),
    )


PACKAGES = (asyncio, message, client, json)
"""Modules in the standard library's packages `asyncio`, `email`, `http` and `json`."""
SPANS = """
import json, pathlib, sys
from joey.content.outline_worker import find_definition_spans
files = [pathlib.Path(path).read_bytes() for path in sys.argv[1:]]
print(json.dumps([find_definition_spans("python", data) for data in files]))
"""


def test_the_definitions_of_the_standard_library_are_those_that_python_itself_sees() -> None:
    directories = [Path(str(module.__file__)).parent for module in PACKAGES]
    files = [Path(argparse.__file__), *chain(*(sorted(each.rglob("*.py")) for each in directories))]
    # In a process of its own, because a grammar that crashes takes its process along.
    run = subprocess.run(
        [sys.executable, "-c", SPANS, *files], capture_output=True, check=True, timeout=300
    )
    found = [[tuple(span) for span in spans] for spans in json.loads(run.stdout)]
    assert len(found[0]) > 150
    for file, spans in zip(files, found, strict=True):
        text = file.read_text(encoding="utf-8")
        lines = text.split("\n")
        assert [(first, without_remarks(lines, last)) for first, last, _ in spans] == [
            (first, without_remarks(lines, last)) for first, last in seen_by_python(text)
        ], file


async def test_a_large_module_is_outlined_whole() -> None:
    text = getsource(argparse)
    found = await OutlineExtractor().build_outline("argparse.py", text.encode())
    seen = seen_by_python(text)
    assert [item.start_line for item in found] == [
        first for first, last in seen if last - first >= 3
    ]


def seen_by_python(text: str) -> list[tuple[int, int]]:
    """First and last lines of classes and functions, methods and decorators included."""
    nodes = ast.walk(ast.parse(text))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return sorted(
        (min(part.lineno for part in (each, *each.decorator_list)), each.end_lineno or 0)
        for each in nodes
        if isinstance(each, kinds)
    )


def without_remarks(lines: Sequence[str], last: int) -> int:
    """The last line that is code: to tree-sitter, a comment at the end belongs to the body."""
    while not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#"):
        last -= 1
    return last

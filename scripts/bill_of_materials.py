"""The software bill of materials of a release, in the JSON format of CycloneDX."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

_REQUIREMENT_RE = re.compile(r"^(?P<name>[\w.-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)")
_HASH_RE = re.compile(r"--hash=sha256:([0-9a-f]{64})")

Component = dict[str, Any]


def build_bill_of_materials(version: str, requirements: str, page_lock: str) -> dict[str, Any]:
    """List joey's requirements and the libraries that are built into its page.

    `requirements` is the text of `requirements.lock`, `page_lock` that of `package-lock.json`.
    """
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "joey",
                "name": "joey",
                "version": version,
                "purl": f"pkg:pypi/joey@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [*_list_python_packages(requirements), *_list_page_libraries(page_lock)],
    }


def _list_python_packages(requirements: str) -> list[Component]:
    components: list[Component] = []
    for line in requirements.splitlines():
        if found := _REQUIREMENT_RE.match(line):
            purl = f"pkg:pypi/{found['name']}@{found['version']}"
            components.append(_describe(found["name"], found["version"], purl))
            components[-1]["properties"] = []
        elif found := _HASH_RE.search(line):
            # One of several files of that version, so not a hash of the component itself.
            components[-1]["properties"].append({"name": "joey:sha256", "value": found[1]})
    return components


def _list_page_libraries(page_lock: str) -> list[Component]:
    components = []
    for place, package in json.loads(page_lock)["packages"].items():
        if not place or package.get("dev"):
            continue
        name = place.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{quote(name, safe='/')}@{package['version']}"
        component = _describe(name, package["version"], purl)
        algorithm, _, digest = package["integrity"].partition("-")
        content = base64.b64decode(digest).hex()
        component["hashes"] = [{"alg": algorithm.replace("sha", "SHA-"), "content": content}]
        components.append(component)
    return components


def _describe(name: str, version: str, purl: str) -> Component:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def write_bill_of_materials(root: Path, version: str, target: Path) -> None:
    bill = build_bill_of_materials(
        version,
        (root / "requirements.lock").read_text(encoding="utf-8"),
        (root / "web" / "package-lock.json").read_text(encoding="utf-8"),
    )
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")

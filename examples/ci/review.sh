#!/usr/bin/env bash
# Review what a branch changes: review.sh [BASE]. Findings become annotations of the CI host;
# the exit code is 1 if one of them is an error.
set -euo pipefail
base="${1:-origin/main}"
out="${RUNNER_TEMP:-/tmp}/joey-review"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

git diff "$base...HEAD" | joey -p --mode ask --max-turns 40 --max-wall-time 15m \
  --json-schema "$here/findings.schema.json" --output-dir "$out" \
  "Review this diff. Read the files around it where you need to. Report defects only." > /dev/null

python3 - "$out/result.json" <<'PYTHON'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    findings = json.load(file)["structured"]["findings"]
for each in findings:
    text = each["comment"].replace("%", "%25").replace("\n", "%0A")
    print(f"::{each['severity']} file={each['file']},line={each['line']}::{text}")
sys.exit(any(each["severity"] == "error" for each in findings))
PYTHON

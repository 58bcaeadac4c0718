# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""summary.py KIT OUT: one JSON and one page of Markdown of what on-gpu ran."""
import json
import os
import re
import sys

kit, out = sys.argv[1:]


def read(name):
    path = f"{kit}/log/{name}"
    return open(path, errors="replace").read() if os.path.exists(path) else ""


steps = []
for line in open(kit + "/steps"):
    name, status, seconds = line.strip().split("|")
    text = read(name)
    passed = re.findall(r"\[  PASSED  \] (\d+) test", text)
    failed = sorted(set(re.findall(r"\[  FAILED  \] ([\w/.]+\.[\w/]+)", text)))
    skipped = sorted(set(re.findall(r"\[  SKIPPED \] ([\w/.]+\.[\w/]+)", text)))
    last = [l for l in text.strip().splitlines()[-1:] if status != "0"]
    steps.append(dict(step=name, status=status, seconds=int(seconds), passed=int(passed[-1]) if passed else None,
                      failed=failed, skipped=skipped, last=last))
machine = read("machine")
gpu = re.search(r"\|\s+0\s+(NVIDIA[\w ]*?)\s{2,}", machine)
driver = re.search(r"Driver Version: ([\d.]+)", machine)
cuda = re.search(r"release ([\d.]+)", machine)
about = dict(gpu=gpu[1].strip() if gpu else "none", driver=driver[1] if driver else "none",
             cuda=cuda[1] if cuda else "none")
json.dump(dict(about=about, steps=steps), open(out + "/results.json", "w"), indent=1)
with open(out + "/results.md", "w") as page:
    page.write(f"GPU {about['gpu']}, driver {about['driver']}, CUDA {about['cuda']}\n\n")
    page.write("| step | status | s | passed | failed, or the last line |\n|---|---|---|---|---|\n")
    for s in steps:
        words = ", ".join(s["failed"]) or " ".join(s["last"])
        page.write(f"| {s['step']} | {s['status']} | {s['seconds']} | {s['passed'] or ''} | {words[:300]} |\n")
    for name in filter(read, ("layers", "layers.tf32", "layers.bf16", "layers.library", "layers.tf32.library")):
        page.write(f"\n{name}\n\n```text\n{read(name)}```\n")

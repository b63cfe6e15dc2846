#!/usr/bin/env python3
"""Writes a plan of a day of six minutes that begins in twenty seconds: plan.py FILE [URL]

Plans are made by `punctual plan`, from history. This one is made up, to see how one is followed. For which policy it is, a gateway says
when it refuses one that was made for another.
"""
import json, re, sys, time, urllib.error, urllib.request

file, url = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "http://127.0.0.1:8440"
SECOND, begins = 1_000_000, int(time.time()) + 20

plan = {
    "from": begins * SECOND,
    "until": (begins + 360) * SECOND,
    "fleet": [4, 4],                                 # one is there already, the other starts five seconds before
    "spinups": [{"at": 60 * SECOND, "size": 16}, {"at": 120 * SECOND, "size": 4}],
    "knobs": {
        "lifetime": 60 * SECOND, "idle": 30 * SECOND,  # what is idle goes after half a minute; after the day, in an hour
        "observations": 32, "window": 300 * SECOND, "completions": 32, "late_share": 0.05, "counting": "Expected",
    },
    "made_for": 0,
}


def text():
    return json.dumps({"format": 1, "plan": plan, "evidence": "made up"}, indent=2)


try:
    urllib.request.urlopen(urllib.request.Request(f"{url}/v1/plan", text().encode(), method="POST"))
except urllib.error.HTTPError as refused:
    said = json.load(refused)["error"]
    ground = re.search(r"not ([0-9a-f]{16})", said)
    if not ground:
        sys.exit(said)
    plan["made_for"] = int(ground.group(1), 16)
with open(file, "w") as out:
    out.write(text())
print(f"{file}: a day that begins at {time.strftime('%H:%M:%S', time.localtime(begins))}")

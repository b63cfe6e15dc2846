"""Has pytest write how each test ended, one a line, to the file that OUTCOMES names."""

import os

_phases = {}
_file = open(os.environ["OUTCOMES"], "a", encoding="utf-8")


def pytest_runtest_logreport(report):
    _phases.setdefault(report.nodeid, []).append(report)
    if report.when != "teardown":
        return
    phases = _phases.pop(report.nodeid)
    failed = [phase for phase in phases if phase.failed]
    outcome = "failed" if failed else "skipped" if any(phase.skipped for phase in phases) else "passed"
    print(outcome, report.nodeid, _why(failed), sep="\t", file=_file, flush=True)


def _why(failed):
    for phase in failed:
        crash = getattr(phase.longrepr, "reprcrash", None)
        lines = (crash.message if crash else phase.longreprtext).strip().splitlines()
        if lines:
            # Of a traceback, what it comes to.
            return lines[0] if crash else lines[-1]
    return ""

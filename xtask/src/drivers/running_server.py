"""Has asyncpg's suite use the server at SERVER_PORT. What starts a server of its own is skipped: it would test that one.

The suite can be told by PGHOST as well, but leaves out more then.
"""

import os
import unittest

from asyncpg import _testbase, cluster


def _skip(*_, **__):
    raise unittest.SkipTest("it starts a server of its own")


cluster.TempCluster.init = _skip
_testbase._default_cluster = cluster.RunningCluster(
    host="127.0.0.1", port=int(os.environ["SERVER_PORT"]), user="postgres", database="postgres"
)
